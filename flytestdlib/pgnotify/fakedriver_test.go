package pgnotify

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// fakeServer is a database/sql driver that takes the notify statement and nothing else. What it does with a statement is the
// test's to say; what it commits it hears.
type fakeServer struct {
	// dial and exec decide; nil means success. exec is called before the commit.
	dial func() error
	exec func(s fakeStatement) error
	// answer is called after the commit: an error is an answer that got lost.
	answer func(s fakeStatement) error

	mu         sync.Mutex
	statements []fakeStatement
	heard      []string // "channel payload" in order of commit, equal ones of a statement once
	open       int      // connections
	opened     int
}

type fakeStatement struct {
	Channel  string
	Payloads []string // with the filling
	Width    int
	Ctx      context.Context
}

// pool returns a pool on the server, closed at the end of the test.
func (f *fakeServer) pool(t testing.TB) *sql.DB {
	t.Helper()
	db := sql.OpenDB(f)
	if t, ok := t.(interface{ Cleanup(func()) }); ok {
		t.Cleanup(func() { _ = db.Close() })
	}
	return db
}

func (f *fakeServer) hears() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.heard...)
}

func (f *fakeServer) Driver() driver.Driver { return nil }

func (f *fakeServer) Connect(context.Context) (driver.Conn, error) {
	if f.dial != nil {
		if err := f.dial(); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open++
	f.opened++
	return &fakeConn{server: f}, nil
}

type fakeConn struct{ server *fakeServer }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not offered") }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("not offered") }
func (c *fakeConn) Close() error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.open--
	return nil
}

func (c *fakeConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := fakeStatement{Channel: args[0].Value.(string), Width: strings.Count(query, "pg_notify($1,"), Ctx: ctx}
	for _, a := range args[1:] {
		s.Payloads = append(s.Payloads, a.Value.(string))
	}
	if len(s.Payloads) != s.Width {
		return nil, fmt.Errorf("%d calls with %d payloads", s.Width, len(s.Payloads))
	}

	f := c.server
	f.mu.Lock()
	f.statements = append(f.statements, s)
	f.mu.Unlock()
	if f.exec != nil {
		if err := f.exec(s); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	said := map[string]bool{}
	for _, p := range s.Payloads {
		if !said[p] {
			said[p] = true
			f.heard = append(f.heard, s.Channel+" "+p)
		}
	}
	f.mu.Unlock()
	if f.answer != nil {
		if err := f.answer(s); err != nil {
			return nil, err
		}
	}
	return driver.RowsAffected(1), nil
}

// state is an error as the server sends it.
func state(code string) error { return &pgconn.PgError{Severity: "ERROR", Code: code, Message: "fake"} }

func fakeSender(t testing.TB, f *fakeServer) *Sender {
	t.Helper()
	s, err := NewSenderOn(f.pool(t), SenderConfig{})
	require.NoError(t, err)
	return s
}

// batchOf returns a batch as Take would.
func batchOf(channel string, payloads ...string) Batch {
	b := Batch{Channel: channel}
	for _, p := range payloads {
		b.Entries = append(b.Entries, Entry{Payload: p})
	}
	return b
}

func payloadsOf(entries []Entry) []string {
	payloads := make([]string, 0, len(entries))
	for _, e := range entries {
		payloads = append(payloads, e.Payload)
	}
	return payloads
}

// numbered returns n different payloads.
func numbered(n int) []string {
	payloads := make([]string, n)
	for i := range payloads {
		payloads[i] = fmt.Sprintf("project/domain/run/a%06d", i)
	}
	return payloads
}

// requireSum checks that the counts of a channel add up.
func requireSum(t require.TestingT, s PendingStats) {
	sum := s.Coalesced + s.Delivered + s.Rejected + uint64(s.Pending) + uint64(s.InFlight)
	require.Equal(t, s.Added, sum, "added = coalesced + delivered + rejected + pending + in flight: %+v", s)
}
