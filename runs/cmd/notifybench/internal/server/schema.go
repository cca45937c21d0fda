package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
)

// UniqueName returns a name that nobody else has: fit for a schema or a channel.
func UniqueName() string {
	return "notifybench_" + strings.ToLower(rand.Text()[:12])
}

// CreateSchema creates a schema of our own. The caller owes drop, which works after ctx has ended too, and names the schema if
// it has to leave it.
func (s *Server) CreateSchema(ctx context.Context) (name string, drop func() error, err error) {
	name = UniqueName()
	if err := s.Execute(ctx, "CREATE SCHEMA "+name, "COMMENT ON SCHEMA "+name+" IS 'of a running notifybench; a left-over when none runs'"); err != nil {
		return "", nil, err
	}
	return name, func() error {
		if err := s.Execute(context.WithoutCancel(ctx), "DROP SCHEMA "+name+" CASCADE"); err != nil {
			return fmt.Errorf("schema %s is left behind: %w", name, err)
		}
		return nil
	}, nil
}

// Execute runs statements, given without parameters, in one transaction on a connection of its own.
func (s *Server) Execute(ctx context.Context, statements ...string) error {
	conn, err := s.Connect(ctx, nil)
	if err != nil {
		return err
	}
	defer Disconnect(conn)
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if _, err := conn.Exec(ctx, strings.Join(statements, "; ")); err != nil { // several statements: the simple protocol, one transaction
		return fmt.Errorf("%s: %w", statements[0], err)
	}
	return nil
}
