//go:build unix

package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// Server is a running PostgreSQL server that belongs to this process. Its methods may be called from any goroutine.
type Server struct {
	config   Config
	options  options
	folder   folder
	programs programs
	run      *account
	lock     *os.File
	free     sync.Once

	port     int
	process  *os.Process
	logStart int64         // where this run's lines begin in the log
	done     chan struct{} // closed when the process has ended and been waited for
}

// Start brings up the server and returns when it answers. The caller stops it; should this process die before, the server ends too.
//
// A port held by somebody else is a *PortTakenError. Other errors quote the end of the server's log where that says why.
func Start(ctx context.Context, config Config, given ...Option) (*Server, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("embedded postgresql: %w", err)
	}
	options, err := collect(config, given)
	if err != nil {
		return nil, fmt.Errorf("embedded postgresql: %w", err)
	}
	s := &Server{config: config, options: options}
	if err := s.start(ctx); err != nil {
		if s.lock != nil {
			err = errors.Join(err, s.release())
		}
		return nil, fmt.Errorf("embedded postgresql: %w", err)
	}
	logger.Infof(ctx, "embedded postgresql %d listens on 127.0.0.1:%d, process %d, data in %s", s.programs.version, s.port, s.PID(), s.folder.dir)
	return s, nil
}

func (s *Server) start(ctx context.Context) (err error) {
	open := lastingFolder
	if s.options.ephemeral {
		open = temporaryFolder
	}
	if s.folder, s.run, err = open(s.config); err != nil {
		return err
	}
	if s.lock, err = lockFile(s.folder.lock(), os.O_RDWR|os.O_CREATE); err != nil {
		return fmt.Errorf("dir %s: %w", s.folder.dir, err)
	}
	if s.programs, err = choosePrograms(ctx, s.config, s.folder, s.run); err != nil {
		return err
	}
	limit := fmt.Errorf("no answer within startTimeout (%s): %w", s.config.StartTimeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.StartTimeout, limit)
	defer cancel()
	if err := reclaim(ctx, s.folder, s.config.StopTimeout); err != nil {
		return err
	}
	if err := s.initialize(ctx); err != nil {
		return err
	}
	return s.launch(ctx)
}

// launchAttempts bounds how often a free port is chosen anew when somebody snatched it before the server listened.
const launchAttempts = 5

func (s *Server) launch(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		port, err := choosePort(s.config.Port)
		if err != nil {
			return err
		}
		if err = s.launchOn(ctx, port); err == nil {
			return nil
		}
		_, taken := choosePort(port)
		switch {
		case taken == nil || ctx.Err() != nil:
			return err
		case s.config.Port != 0 || attempt == launchAttempts:
			return fmt.Errorf("%w: %w", taken, err)
		}
	}
}

func (s *Server) launchOn(ctx context.Context, port int) error {
	log, start, err := openLog(s.folder.log())
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	s.port, s.logStart, s.done = port, start, make(chan struct{})
	cmd := command(context.WithoutCancel(ctx), s.run, s.programs.path("postgres"), s.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := s.spawn(cmd); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	if err := s.awaitReady(ctx); err != nil {
		return errors.Join(fmt.Errorf("%w; the end of %s: %s", err, s.folder.log(), s.logTail()), s.end(ctx, syscall.SIGQUIT))
	}
	return nil
}

func (s *Server) arguments() []string {
	settings := map[string]string{"timezone": "UTC", "log_timezone": "UTC", "logging_collector": "off", "log_destination": "stderr"}
	if s.options.withoutSync {
		maps.Copy(settings, map[string]string{"fsync": "off", "full_page_writes": "off"})
	}
	maps.Copy(settings, s.options.settings)
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = strconv.Itoa(s.port)
	settings["unix_socket_directories"] = "" // none: nobody needs one, and the names of folders are often too long for it
	args := []string{"-D", s.folder.data()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// spawn starts the server and has a goroutine wait for its end.
func (s *Server) spawn(cmd *exec.Cmd) error {
	outcome := make(chan error)
	go func() {
		_ = run(cmd, func(err error) { // how the server ended is in its log
			s.process = cmd.Process
			outcome <- err
		})
		close(s.done)
	}()
	return <-outcome
}

// output runs a short command to its end and returns what it wrote.
func output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out // one writer for both: os/exec then uses one pipe and one goroutine
	err := run(cmd, func(error) {})
	return out.Bytes(), err
}

func (s *Server) awaitReady(ctx context.Context) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		var refused *pgconn.PgError
		if errors.As(err, &refused) && (refused.Code == "28P01" || refused.Code == "28000") {
			return fmt.Errorf("the data in %s was made for another user or password: %w", s.folder.dir, err)
		}
		select {
		case <-s.done:
			return errors.New("the server ended while it started")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// ask succeeds when our server answers on the port, and not one that took the port while ours started.
func (s *Server) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return err
	}
	if data != s.folder.data() {
		return fmt.Errorf("the server on port %d works in %s", s.port, data)
	}
	return nil
}

// DSN returns the URL of a database on the server, password included.
func (s *Server) DSN(database string) string {
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(s.options.user, s.options.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     database,
		RawQuery: "sslmode=disable",
	}
	return address.String()
}

// Postgres returns the configuration that reaches a database on the server.
func (s *Server) Postgres(name string) database.PostgresConfig {
	return database.PostgresConfig{
		Host: "127.0.0.1", Port: s.port, DbName: name,
		User: s.options.user, Password: s.options.password, ExtraOptions: "sslmode=disable",
	}
}

// Port returns the TCP port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// PID returns the process id of the server's first process, the parent of all its others.
func (s *Server) PID() int { return s.process.Pid }

// Processes returns the ids of all the server's processes, the first one among them. It costs a look at every process of the machine.
func (s *Server) Processes() []int { return processesOver(s.folder.data()) }

// Version returns the major version of PostgreSQL.
func (s *Server) Version() int { return s.programs.version }

// Dir returns the folder that holds data, log and lock.
func (s *Server) Dir() string { return s.folder.dir }

// Done is closed when the server has ended, be it by Stop or by itself. Stop has still to be called, to free the folder.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server: by a fast shutdown, then without a checkpoint, then by force, each within StopTimeout or until ctx is done. When
// it returns no process of the server is left, the folder is free, and an ephemeral server's is gone. Further calls do nothing.
func (s *Server) Stop(ctx context.Context) (err error) {
	s.free.Do(func() {
		if err = errors.Join(s.end(ctx, syscall.SIGINT), s.release()); err != nil {
			err = fmt.Errorf("embedded postgresql: stop: %w", err)
		}
	})
	return err
}

// end sends the first process a signal, gives it time to end, and ends what is left.
func (s *Server) end(ctx context.Context, signal syscall.Signal) error {
	if s.process.Signal(signal) == nil {
		timer := time.NewTimer(s.config.StopTimeout)
		defer timer.Stop()
		select {
		case <-s.done:
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	err := endProcesses(ctx, s.folder, s.config.StopTimeout)
	_ = s.process.Kill() // it may be too young to be found by its folder
	<-s.done
	return err
}

// release gives the folder back, and removes it if it was only for this run.
func (s *Server) release() error {
	var err error
	if s.folder.temporary {
		err = os.RemoveAll(s.folder.dir)
	}
	return errors.Join(err, s.lock.Close())
}
