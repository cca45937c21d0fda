//go:build unix

package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// Server is a running PostgreSQL server that belongs to this process. Its methods may be called from any goroutine.
type Server struct {
	config   Config
	folder   folder
	programs programs
	run      *account
	port     int
	pid      int
	lock     *os.File
	logStart int64         // where this run's lines begin in the log
	done     chan struct{} // closed when the server process has ended and been waited for
}

// Start brings up the server and returns when it answers, within config.StartTimeout. The caller stops it; if the process dies before,
// the server ends too.
func Start(ctx context.Context, config Config) (*Server, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("embedded postgresql: %w", err)
	}
	limit := fmt.Errorf("embedded postgresql: start: no answer within startTimeout (%s): %w", config.StartTimeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, config.StartTimeout, limit)
	defer cancel()
	server, err := prepare(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("embedded postgresql: %w", err)
	}
	if err := server.launch(ctx); err != nil {
		server.release()
		return nil, fmt.Errorf("embedded postgresql in %s: %w", server.folder.dir, err)
	}
	logger.Infof(ctx, "embedded postgresql %d on 127.0.0.1:%d, process %d, data in %s", server.programs.version, server.port, server.pid, server.folder.dir)
	return server, nil
}

// prepare does everything that needs no running server: folder, lock, programs, left-overs, data.
func prepare(ctx context.Context, config Config) (_ *Server, err error) {
	if config.Ephemeral {
		if config.Dir, err = os.MkdirTemp("", ephemeralPrefix); err != nil {
			return nil, err
		}
	}
	dir, run, err := chooseDir(config)
	if err != nil {
		return nil, err
	}
	server := &Server{config: config, run: run, done: make(chan struct{})}
	if config.Ephemeral {
		if err := errors.Join(os.Chmod(dir, 0o755), run.own(dir)); err != nil {
			return nil, err
		}
	}
	if server.folder, err = openFolder(dir, run); err != nil {
		return nil, fmt.Errorf("dir %s: %w", dir, err)
	}
	if server.lock, err = lockDir(server.folder.lock()); err != nil {
		return nil, fmt.Errorf("dir %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			server.release()
		}
	}()
	if server.programs, err = choosePrograms(ctx, config, server.folder, run); err != nil {
		return nil, err
	}
	if err := reclaim(ctx, server.folder, config.StopTimeout); err != nil {
		return nil, err
	}
	if err := server.initialize(ctx); err != nil {
		return nil, err
	}
	return server, nil
}

// choosePrograms picks the programs that fit the configuration and the data that is there.
func choosePrograms(ctx context.Context, config Config, at folder, run *account) (programs, error) {
	wanted, err := at.version()
	if err != nil {
		return programs{}, err
	}
	if wanted != 0 && config.Version != 0 && wanted != config.Version {
		return programs{}, fmt.Errorf("version: the data in %s is of version %d, not %d: configure that version or another dir", at.dir, wanted, config.Version)
	}
	if wanted == 0 {
		wanted = config.Version
	}
	var candidates []programs
	if config.BinDir != "" {
		given, err := inspectPrograms(ctx, config.BinDir, run)
		if err != nil {
			return programs{}, fmt.Errorf("binDir: %w", err)
		}
		candidates = []programs{given}
	} else {
		candidates = findPrograms(ctx, run)
	}
	for _, candidate := range candidates {
		if wanted == 0 || candidate.version == wanted {
			return candidate, nil
		}
	}
	return programs{}, fmt.Errorf("no server programs of version %d found", wanted)
}

// initialize creates the data where there is none. It is made beside its place and moved there when complete, so that an interrupted
// attempt leaves nothing that looks like data.
func (s *Server) initialize(ctx context.Context) error {
	if version, err := s.folder.version(); err != nil || version != 0 {
		return err
	}
	fresh, secret := s.folder.data()+".new", filepath.Join(s.folder.dir, "password")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	defer func() { _ = os.Remove(secret) }()
	if err := os.WriteFile(secret, []byte(s.config.Password), 0o600); err != nil {
		return err
	}
	if err := s.run.own(secret); err != nil {
		return err
	}
	args := []string{"-D", fresh, "-U", s.config.User, "--pwfile=" + secret, "-A", "scram-sha-256", "--encoding=UTF8", "--locale=C"}
	if s.config.Ephemeral {
		args = append(args, "--no-sync")
	}
	out, err := output(command(ctx, s.run, s.programs.path("initdb"), args...))
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(out))
	}
	return os.Rename(fresh, s.folder.data())
}

// output runs a short command. It holds the thread for it, since the command dies with the thread that started it.
func output(cmd *exec.Cmd) ([]byte, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.CombinedOutput()
}

// launchAttempts bounds how often a free port is chosen anew when somebody snatched it before the server listened.
const launchAttempts = 5

func (s *Server) launch(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		port, err := choosePort(s.config.Port)
		if err != nil {
			return err
		}
		err = s.launchOn(ctx, port)
		if err == nil || s.config.Port != 0 || attempt == launchAttempts || ctx.Err() != nil {
			return err
		}
		if _, taken := choosePort(port); taken == nil {
			return err // it was not the port
		}
		s.done = make(chan struct{})
	}
}

func (s *Server) launchOn(ctx context.Context, port int) error {
	s.port = port
	log, err := os.OpenFile(s.folder.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	if s.logStart, err = log.Seek(0, 2); err != nil {
		return err
	}
	cmd := command(context.Background(), s.run, s.programs.path("postgres"), s.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := s.spawn(cmd); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		s.stop(syscall.SIGQUIT)
		return fmt.Errorf("%w; its log ends with: %s", err, s.logTail())
	}
	return nil
}

func (s *Server) arguments() []string {
	settings := map[string]string{"timezone": "UTC", "log_timezone": "UTC", "logging_collector": "off"}
	if s.config.Ephemeral {
		maps.Copy(settings, map[string]string{"fsync": "off", "full_page_writes": "off"})
	}
	maps.Copy(settings, s.config.Settings)
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = strconv.Itoa(s.port)
	settings["unix_socket_directories"] = "" // none: nobody needs one, and folder names are often too long for it
	args := []string{"-D", s.folder.data()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// spawn starts the server on a thread that lives as long as it does: the server is made to die with its starting thread.
func (s *Server) spawn(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			s.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(s.done)
		}
	}()
	return <-started
}

// readyPoll is the pause between two attempts to connect to a server that is starting.
const readyPoll = 20 * time.Millisecond

func (s *Server) awaitReady(ctx context.Context) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		if code := sqlState(err); code == "28P01" || code == "28000" {
			return fmt.Errorf("user %s: the data in %s was set up with another password or user: %w", s.config.User, s.folder.dir, err)
		}
		select {
		case <-s.done:
			return errors.New("the server ended while starting")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(ctx), conn.Close(ctx))
}

// DSN returns the URL of a database on the server, password included.
func (s *Server) DSN(database string) string {
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(s.config.User, s.config.Password),
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
		User: s.config.User, Password: s.config.Password, ExtraOptions: "sslmode=disable",
	}
}

// Port returns the TCP port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// PID returns the process id of the server's first process, the parent of all its others.
func (s *Server) PID() int { return s.pid }

// Version returns the major version of PostgreSQL.
func (s *Server) Version() int { return s.programs.version }

// Dir returns the folder that holds data, log and lock.
func (s *Server) Dir() string { return s.folder.dir }

// Done is closed when the server has ended, be it by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server: fast shutdown first, then without a checkpoint, then by force, each within config.StopTimeout or until ctx is
// done. When it returns, no process of the server is left and the folder is free. Stopping an ended server only frees the folder.
func (s *Server) Stop(ctx context.Context) error {
	s.stopWithin(ctx)
	s.release()
	return nil
}

func (s *Server) stopWithin(ctx context.Context) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if s.signalAndWait(ctx, signal) {
			return
		}
	}
	s.stop(syscall.SIGKILL)
}

func (s *Server) signalAndWait(ctx context.Context, signal syscall.Signal) bool {
	select {
	case <-s.done:
		return true
	default:
	}
	_ = syscall.Kill(s.pid, signal)
	timer := time.NewTimer(s.config.StopTimeout)
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// stop sends a signal that the server obeys at once, and waits; by force in the end.
func (s *Server) stop(signal syscall.Signal) {
	if !s.signalAndWait(context.Background(), signal) {
		_ = syscall.Kill(-s.pid, syscall.SIGKILL)
		<-s.done
	}
}

// release gives the folder back, and removes it if it was only for this run.
func (s *Server) release() {
	if s.config.Ephemeral {
		_ = os.RemoveAll(s.folder.dir)
	}
	_ = s.lock.Close()
}

// Processes returns the process ids of the server's processes, the first one and the backends among them.
func (s *Server) Processes() []int { return processesOver(s.folder.data()) }
