//go:build unix

package dbtest

import (
	"context"
	"maps"
	"sync"
	"syscall"
	"testing"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
)

// Mode is a way to stop a server.
type Mode int

const (
	// Fast closes all sessions (57P01 at the client) and writes a checkpoint.
	Fast Mode = iota
	// Immediate is a crash as far as data and clients can tell: no farewell that can be relied on, recovery at the next start.
	Immediate
)

// Option changes a private server before it starts.
type Option func(*Server)

// WithSettings adds server settings (postgresql.conf names), e.g. max_connections.
func WithSettings(settings map[string]string) Option {
	return func(s *Server) { maps.Copy(s.settings, settings) }
}

// WithPort fixes the port; without it the server takes a free one, and keeps it over restarts.
func WithPort(port int) Option {
	return func(s *Server) { s.config.Port = port }
}

// WithVersion asks for a major version of PostgreSQL; without it the newest on the machine runs.
func WithVersion(version int) Option {
	return func(s *Server) { s.config.Version = version }
}

// Server is a private server for tests that break it. It keeps data and port over Stop and Start. The methods may be called from any
// goroutine; those that can fail fail the test.
type Server struct {
	t        testing.TB
	settings map[string]string

	mu      sync.Mutex
	config  embedded.Config
	running *embedded.Server // nil while stopped
	last    *embedded.Server // the address stays valid while stopped
}

// StartServer starts a private server, stopped and removed at the end of the test. It costs about a second.
func StartServer(t testing.TB, options ...Option) *Server {
	t.Helper()
	return startIn(t, tempDir(t), options...)
}

// startIn starts a server over the data in dir, which may be new.
func startIn(t testing.TB, dir string, options ...Option) *Server {
	t.Helper()
	s := &Server{
		t:        t,
		config:   embedded.Config{Dir: dir},
		settings: map[string]string{},
	}
	for _, option := range options {
		option(s)
	}
	s.Start()
	t.Cleanup(func() { s.Stop(Immediate) })
	return s
}

// Start starts the stopped server on its former port and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.t.Fatalf("start: server on port %d runs already", s.running.Port())
	}
	started, err := embedded.Start(context.WithoutCancel(s.t.Context()), s.config, embedded.WithSettings(s.settings), embedded.WithoutSync())
	if err != nil {
		s.t.Fatalf("start: %v", err)
	}
	s.running, s.last = started, started
	s.config.Port = started.Port()
}

// Stop stops the server and returns when no process of it is left. Stopping a stopped server does nothing. A paused one is resumed first.
func (s *Server) Stop(mode Mode) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	s.signalAll(syscall.SIGCONT)
	if mode == Immediate {
		select {
		case <-s.running.Done(): // crashed before: its number may be somebody else's
		default:
			s.signal(s.running.PID(), syscall.SIGQUIT)
			<-s.running.Done()
		}
	}
	if err := s.running.Stop(context.WithoutCancel(s.t.Context())); err != nil {
		s.t.Errorf("stop: %v", err)
	}
	s.running = nil
}

// Restart is Stop and Start.
func (s *Server) Restart(mode Mode) {
	s.t.Helper()
	s.Stop(mode)
	s.Start()
}

// Pause freezes every process of the server: connections stay open, new ones are accepted by the kernel, and nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signalAll(syscall.SIGSTOP)
}

// Resume ends Pause.
func (s *Server) Resume() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signalAll(syscall.SIGCONT)
}

// PauseBackend freezes one backend, by the process id that pg_backend_pid() or pg_stat_activity gives for it, until the returned
// function is called or the server stops.
func (s *Server) PauseBackend(pid int) (resume func()) {
	s.t.Helper()
	s.signal(pid, syscall.SIGSTOP)
	return func() { s.signal(pid, syscall.SIGCONT) }
}

// signalAll reaches the first process before the others, so that a frozen one starts no further ones meanwhile.
func (s *Server) signalAll(signal syscall.Signal) {
	s.t.Helper()
	if s.running == nil {
		return
	}
	select {
	case <-s.running.Done():
		return
	default:
	}
	s.signal(s.running.PID(), signal)
	for _, pid := range s.running.Processes() {
		s.signal(pid, signal)
	}
}

// signal does not mind a process that has just ended.
func (s *Server) signal(pid int, signal syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
		s.t.Errorf("signal %s to process %d: %v", signal, pid, err)
	}
}

// PID returns the process id of the server's first process, 0 while it is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return 0
	}
	return s.running.PID()
}

// Port returns the TCP port on 127.0.0.1, which stays the same over restarts.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.Port()
}

// Config returns the configuration of database postgres on the server, with the service's default pool limits.
func (s *Server) Config() database.DbConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return database.DbConfig{Postgres: s.last.Postgres("postgres")}.WithDefaults()
}

// DSN returns the connection string of database postgres on the server.
func (s *Server) DSN() string {
	return database.GetPostgresDsn(context.Background(), s.Config().Postgres)
}
