package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

func open(t *testing.T, cfg Config, needs Needs) *Server {
	t.Helper()
	s, err := Open(t.Context(), cfg, needs)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func TestTheEmbeddedServerWaitsForTheDisk(t *testing.T) {
	s := open(t, Config{}, Needs{Connections: 3, Tables: true, Procedures: true})
	assert.True(t, s.Facts.Embedded)
	assert.Equal(t, []string{"on", "on", "on"}, []string{s.Facts.Fsync, s.Facts.SynchronousCommit, s.Facts.FullPageWrites})
	assert.Positive(t, s.Facts.RTT)
	assert.Contains(t, s.Facts.String(), "fsync=on synchronous_commit=on")
}

func TestDelay(t *testing.T) {
	s := open(t, Config{DSN: dbtest.DSN(t), RTT: 20 * time.Millisecond}, Needs{Connections: 1})
	assert.GreaterOrEqual(t, s.Facts.RTT, 20.0)
	assert.Contains(t, s.Facts.String(), "(20 ms of them added)")
	assert.NotContains(t, s.Facts.Address, s.proxy.Addr(), "the server's own address is told")
}

func TestWhatCannotBeMeasured(t *testing.T) {
	dsn := dbtest.DSN(t)
	for want, c := range map[string]struct {
		cfg   Config
		needs Needs
	}{
		"dsn: cannot parse `nonsense`":            {Config{DSN: "nonsense"}, Needs{}},
		"no connection: ":                         {Config{DSN: "postgres://u:secret@127.0.0.1:1/d"}, Needs{}},
		"rtt: -1s is not between 0s and 10s":      {Config{RTT: -time.Second}, Needs{}},
		"rtt: the delaying proxy needs TCP":       {Config{DSN: "host=/tmp dbname=d", RTT: 1}, Needs{}},
		"rtt: the delaying proxy leads to one":    {Config{DSN: "postgres://a,b/d", RTT: 1}, Needs{}},
		"rtt: no TLS passes the delaying proxy":   {Config{DSN: "postgres://a/d?sslmode=require", RTT: 1}, Needs{}},
		"1000000 connections are needed, and the": {Config{DSN: dsn}, Needs{Connections: 1000000}},
	} {
		_, err := Open(t.Context(), c.cfg, c.needs)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
	}
}

// as returns dsn for another role.
func as(t *testing.T, dsn, role, password string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Host: fmt.Sprintf("%s:%d", cfg.Host, cfg.Port), Path: cfg.Database, RawQuery: "sslmode=disable"}
	return u.String()
}

func TestMissingRights(t *testing.T) {
	dsn := dbtest.DSN(t)
	owner := open(t, Config{DSN: dsn}, Needs{})
	role := UniqueName()
	require.NoError(t, owner.Execute(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'p'"))
	t.Cleanup(func() {
		assert.NoError(t, owner.Execute(context.Background(), "DROP OWNED BY "+role, "DROP ROLE "+role))
	})
	cfg := Config{DSN: as(t, dsn, role, "p")}

	open(t, cfg, Needs{Procedures: true})
	_, err := Open(t.Context(), cfg, Needs{Tables: true})
	require.ErrorContains(t, err, `role "`+role+`" may not create a schema in database "`)
	require.ErrorContains(t, err, "GRANT CREATE ON DATABASE")

	require.NoError(t, owner.Execute(t.Context(), "REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC"))
	_, err = Open(t.Context(), cfg, Needs{Procedures: true})
	require.ErrorContains(t, err, "GRANT USAGE ON LANGUAGE plpgsql TO")

	require.NoError(t, owner.Execute(t.Context(), "REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC"))
	_, err = Open(t.Context(), cfg, Needs{})
	require.ErrorContains(t, err, "may not notify: GRANT EXECUTE ON FUNCTION pg_notify(text, text) TO")

	_, err = Open(t.Context(), Config{DSN: as(t, dsn, role, "wrong")}, Needs{})
	require.ErrorContains(t, err, "no connection: ")
}

func TestSchemaIsDroppedAfterTheEnd(t *testing.T) {
	s := open(t, Config{DSN: dbtest.DSN(t)}, Needs{Tables: true})
	ctx, cancel := context.WithCancel(t.Context())
	name, drop, err := s.CreateSchema(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Execute(t.Context(), "CREATE TABLE "+name+".something ()"))
	cancel()
	require.NoError(t, drop())
	require.ErrorContains(t, s.Execute(t.Context(), "CREATE TABLE "+name+".something ()"), "does not exist")
	require.ErrorContains(t, drop(), "schema "+name+" is left behind")
}

func TestClock(t *testing.T) {
	s := open(t, Config{DSN: dbtest.DSN(t)}, Needs{})
	conn, err := s.Connect(t.Context(), nil)
	require.NoError(t, err)
	defer Disconnect(conn)
	clock, err := ReadClock(t.Context(), conn)
	require.NoError(t, err)

	before := time.Now()
	var theirs time.Time
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&theirs))
	after := time.Now()
	const blur = 50 * time.Millisecond // half of a round trip on a busy machine
	assert.Greater(t, clock.Since(theirs, after), -blur)
	assert.Less(t, clock.Since(theirs, after), after.Sub(before)+blur)
	assert.Equal(t, 3*time.Second, Clock{ahead: time.Second}.Since(time.Unix(100, 0), time.Unix(102, 0)))
}

func TestExec(t *testing.T) {
	s := open(t, Config{DSN: dbtest.DSN(t)}, Needs{})
	conn, err := s.Connect(t.Context(), nil)
	require.NoError(t, err)
	defer Disconnect(conn)
	divide, err := Prepare(t.Context(), conn, "divide", "SELECT 1 / $1::int")
	require.NoError(t, err)
	by := func(n string) Call { return Call{Statement: divide, Params: [][]byte{[]byte(n)}} }
	require.NoError(t, Exec(conn, by("1")))
	require.NoError(t, Exec(conn, by("1"), by("2")))
	require.ErrorContains(t, Exec(conn, by("0")), "division by zero")
	require.ErrorContains(t, Exec(conn, by("1"), by("0"), by("1")), "division by zero")
	require.NoError(t, Exec(conn, by("1")), "an error of the statement leaves the connection good")
	_, err = Prepare(t.Context(), conn, "wrong", "SELEKT")
	require.ErrorContains(t, err, "prepare wrong: ")
}

func TestHear(t *testing.T) {
	s := open(t, Config{DSN: dbtest.DSN(t)}, Needs{})
	var heard []string
	conn, err := s.Connect(t.Context(), func(n *pgconn.Notification) { heard = append(heard, n.Payload) })
	require.NoError(t, err)
	defer Disconnect(conn)
	_, err = conn.Exec(t.Context(), "LISTEN c")
	require.NoError(t, err)
	require.NoError(t, s.Execute(t.Context(), "NOTIFY c, 'a'", "NOTIFY c, 'b'"))
	require.NoError(t, Hear(t.Context(), conn, func() bool { return len(heard) == 2 }))
	assert.Equal(t, []string{"a", "b"}, heard)

	why := errors.New("long enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	require.ErrorIs(t, Hear(ctx, conn, func() bool { return false }), why)
}
