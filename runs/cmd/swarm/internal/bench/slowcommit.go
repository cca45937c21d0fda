package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

const (
	receiverName = "bench_receivewal" // application_name, by which the server waits for it
	attachLimit  = 30 * time.Second
)

// slowCommits makes every synchronous commit of a server wait for a receiver of its log that is far away.
type slowCommits struct {
	proxy *pgproxy.Proxy
	cmd   *exec.Cmd
	ended chan struct{}
}

// receiver finds the program pg_receivewal of a version.
func receiver(version int) (string, error) {
	inFolder := filepath.Join("/usr/lib/postgresql", strconv.Itoa(version), "bin", "pg_receivewal")
	if _, err := os.Stat(inFolder); err == nil {
		return inFolder, nil
	}
	program, err := exec.LookPath("pg_receivewal")
	if err != nil {
		return "", fmt.Errorf("commit-latency: needs the program pg_receivewal of PostgreSQL's client programs: %w", err)
	}
	return program, nil
}

func startSlowCommits(ctx context.Context, server *embedded.Server, latency time.Duration, dir string) (*slowCommits, error) {
	program, err := receiver(server.Version())
	if err != nil {
		return nil, err
	}
	proxy, err := pgproxy.Start(net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port())), pgproxy.Options{RTT: latency})
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(proxy.Addr())
	db := server.Postgres("postgres")
	log, err := os.Create(filepath.Join(dir, "receivewal.log"))
	if err != nil {
		proxy.Close()
		return nil, fmt.Errorf("log of pg_receivewal: %w", err)
	}
	defer func() { _ = log.Close() }() // the program has its own descriptor
	s := &slowCommits{proxy: proxy, ended: make(chan struct{})}
	s.cmd = exec.Command(program, "--directory="+dir, "--synchronous", "--no-loop", "--no-password",
		fmt.Sprintf("--dbname=host=%s port=%s user=%s application_name=%s sslmode=disable", host, port, db.User, receiverName))
	s.cmd.Env = append(os.Environ(), "PGPASSWORD="+db.Password)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		proxy.Close()
		return nil, fmt.Errorf("start pg_receivewal: %w", err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // how it ended is in its log
	}()
	if err := s.attach(ctx, server); err != nil {
		s.stop()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("commit-latency: pg_receivewal: %w; it says: %s", err, strings.TrimSpace(string(said)))
	}
	return s, nil
}

// attach waits until the receiver is connected, has the server wait for it, and waits until it does.
func (s *slowCommits) attach(ctx context.Context, server *embedded.Server) error {
	limit := fmt.Errorf("not attached within %v: %w", attachLimit, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, attachLimit, limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := s.awaitState(ctx, conn, "streaming"); err != nil {
		return err
	}
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + receiverName + "'", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return s.awaitState(ctx, conn, "streaming sync")
}

func (s *slowCommits) awaitState(ctx context.Context, conn *pgx.Conn, wanted string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var state string
		err := conn.QueryRow(ctx, "SELECT state || ' ' || sync_state FROM pg_stat_replication WHERE application_name = $1", receiverName).Scan(&state)
		if err == nil && strings.HasPrefix(state, wanted) {
			return nil
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ended:
			return errors.New("it has ended")
		case <-tick.C:
		}
	}
}

// stop ends the receiver. Commits of the server then wait for one that does not come: stop the server's users before.
func (s *slowCommits) stop() {
	s.proxy.Close()
	_ = s.cmd.Process.Kill()
	<-s.ended
}
