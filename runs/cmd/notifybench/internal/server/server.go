// Package server is the PostgreSQL that is measured: somebody's, or an embedded one with empty data and durable settings, with
// a delaying proxy in front of it where a longer round trip is asked for. It checks beforehand what a benchmark needs, so that what
// is missing is said in one line and not by fifty failing connections.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/runs/cmd/internal/bounds"
)

// Timeout bounds every single step that is no measurement: a connection, a statement, a clean-up.
const Timeout = 15 * time.Second

const applicationName = "notifybench"

// Config says which server.
type Config struct {
	// DSN is somebody's server; empty: an embedded one.
	DSN string
	// RTT is added to the round trip that there is.
	RTT time.Duration
}

// Needs is what a benchmark asks of the server.
type Needs struct {
	Connections int
	Tables      bool // it creates a schema
	Procedures  bool // it uses PL/pgSQL
}

// Server is a server that is there and has what is needed.
type Server struct {
	Facts Facts

	dsn      string // by way of the proxy if there is one
	embedded *embedded.Server
	proxy    *pgproxy.Proxy
}

// Open finds or starts the server and checks that it has what is needed. The caller owes Close.
func Open(ctx context.Context, cfg Config, needs Needs) (*Server, error) {
	if err := bounds.Between("rtt", cfg.RTT, 0, 10*time.Second); err != nil {
		return nil, err
	}
	s := &Server{dsn: cfg.DSN}
	if err := s.open(ctx, cfg, needs); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context, cfg Config, needs Needs) error {
	if cfg.DSN == "" {
		started, err := startEmbedded(ctx, needs)
		if err != nil {
			return err
		}
		s.embedded, s.dsn = started, started.DSN("postgres")
	}
	parsed, err := pgx.ParseConfig(s.dsn)
	if err != nil {
		return fmt.Errorf("dsn: %w", err)
	}
	if cfg.RTT > 0 {
		if err := s.delay(&parsed.Config, cfg.RTT); err != nil {
			return err
		}
	}
	s.Facts, err = s.inspect(ctx, needs)
	s.Facts.Address = fmt.Sprintf("%s/%s", net.JoinHostPort(parsed.Host, strconv.Itoa(int(parsed.Port))), parsed.Database)
	s.Facts.Embedded = s.embedded != nil
	s.Facts.AddedRTT = milliseconds(cfg.RTT)
	return err
}

// startEmbedded starts a server as one would run it: what a commit costs, and so what a lock costs that is held through it,
// depends on waiting for the disk. Checkpoints alone are put off, since they would hit one run and spare another.
func startEmbedded(ctx context.Context, needs Needs) (*embedded.Server, error) {
	return embedded.Start(ctx, embedded.Config{}, embedded.Ephemeral(), embedded.WithSettings(map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"max_wal_size": "8GB", "checkpoint_timeout": "1h",
		"max_connections": strconv.Itoa(needs.Connections + 20),
	}))
}

// delay puts the proxy between us and the server.
func (s *Server) delay(to *pgconn.Config, rtt time.Duration) error {
	if strings.HasPrefix(to.Host, "/") {
		return fmt.Errorf("rtt: the delaying proxy needs TCP, and dsn names the socket folder %s", to.Host)
	}
	plain := to.TLSConfig == nil
	for _, f := range to.Fallbacks {
		if f.Host != to.Host || f.Port != to.Port {
			return errors.New("rtt: the delaying proxy leads to one server, and dsn names several")
		}
		plain = plain || f.TLSConfig == nil
	}
	if !plain {
		return errors.New("rtt: no TLS passes the delaying proxy, and the sslmode of dsn insists on it")
	}
	proxy, err := pgproxy.Start(net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))), pgproxy.Options{RTT: rtt})
	if err != nil {
		return fmt.Errorf("rtt: %w", err)
	}
	s.proxy, s.dsn = proxy, proxy.DSN(s.dsn)
	return nil
}

// DSN leads to the server, by way of the proxy if there is one.
func (s *Server) DSN() string { return s.dsn }

// Connect opens a connection. What arrives by NOTIFY is handed to heard, if that is given, while the connection is read.
func (s *Server) Connect(ctx context.Context, heard func(*pgconn.Notification)) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(s.dsn)
	if err != nil {
		return nil, fmt.Errorf("dsn: %w", err)
	}
	cfg.ConnectTimeout = Timeout
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = applicationName
	}
	if heard != nil {
		cfg.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { heard(n) }
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("no connection: %w", err)
	}
	return conn, nil
}

// Disconnect closes a connection without waiting for a server that hangs.
func Disconnect(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // nothing is lost with it
}

// Close ends what Open has started.
func (s *Server) Close() error {
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.embedded != nil {
		return s.embedded.Stop(context.Background()) // bounded by its own limits
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
