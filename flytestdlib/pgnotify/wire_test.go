package pgnotify

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

// proxyTo puts a proxy in front of the server that dsn names, and returns the way through it.
func proxyTo(t testing.TB, dsn string, options pgproxy.Options) (*pgproxy.Proxy, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	proxy, err := pgproxy.Start(net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), options)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return proxy, proxy.DSN(dsn)
}

// drain runs the loop until nothing waits.
func drain(t testing.TB, pump *Pump, sender *Sender) {
	t.Helper()
	for channel := range pump.Due() {
		out := sender.Send(t.Context(), pump.Take(channel))
		require.NoError(t, out.Err)
		pump.Settle(out)
		waiting := 0
		for _, c := range pump.order {
			waiting += c.pending.Len()
		}
		if waiting == 0 {
			return
		}
	}
}

// One statement and one round trip for each thousand, counted on the wire, and all of it heard, on two channels together.
func TestRoundTripsOnTheWire(t *testing.T) {
	dsn := testDSN(t)
	proxy, through := proxyTo(t, dsn, pgproxy.Options{})
	ears := listen(t, dsn, "run_updates", "action_updates")
	pump, err := NewPump("run_updates", "action_updates")
	require.NoError(t, err)
	sender, err := NewSender(SenderConfig{DSN: through})
	require.NoError(t, err)
	defer func() { require.NoError(t, sender.Close()) }()

	pump.Add("run_updates", "first") // makes the connection
	drain(t, pump, sender)
	seen := func() (s pgproxy.AppStats) { return proxy.Stats().Matching(senderRole) }
	require.EqualValues(t, 2, seen().RoundTrips, "one for preparing all widths, one for the statement")
	total := 1

	for _, n := range []int{1, 2, 999, 1000, 1001, 1663, 1664, 1665, 5000, 100_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			before := seen()
			payloads := prefixed(fmt.Sprint(n), n)
			for _, p := range payloads {
				pump.Add("run_updates", p)
				pump.Add("action_updates", p)
			}
			drain(t, pump, sender)
			want := int64(2 * ((n + 999) / 1000))
			require.EqualValues(t, want, seen().Statements-before.Statements)
			require.EqualValues(t, want, seen().RoundTrips-before.RoundTrips)
			require.Equal(t, before.Connections, seen().Connections)

			ears.awaits("run_updates", payloads...)
			ears.awaits("action_updates", payloads...)
			total += 2 * n
			require.Equal(t, total, ears.total(), "each once: the filling is not heard")
		})
	}
	require.EqualValues(t, sender.Stats().Statements+1, seen().Statements, "one asks, while preparing, which server it is")
}

// Whatever the widths of the batches, the backend keeps a dozen statements and no more memory than that takes.
func TestBackendKeepsFewStatementsAndLittleMemory(t *testing.T) {
	dsn := testDSN(t)
	own, err := NewSender(SenderConfig{DSN: dsn})
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Close()) }()

	pool, err := sql.Open("pgx", dsn) // a caller's own pool, in pgx's default mode
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	borrowed, err := NewSenderOn(pool, SenderConfig{})
	require.NoError(t, err)

	for name, sender := range map[string]*Sender{"own": own, "borrowed": borrowed} {
		t.Run(name, func(t *testing.T) {
			ask := func(question string) (answer int64) {
				conn, err := sender.db.Conn(t.Context())
				require.NoError(t, err)
				defer func() { _ = conn.Close() }()
				// By the simple protocol, so that asking adds no statement.
				require.NoError(t, conn.QueryRowContext(t.Context(), question, pgx.QueryExecModeSimpleProtocol).Scan(&answer))
				return answer
			}
			pid := ask("SELECT pg_backend_pid()")
			memory := func() int64 { return ask("SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts") }
			fresh := memory()

			r := rand.New(rand.NewPCG(3, 3))
			payloads := numbered(maxWidth)
			batches := 10_000
			for range batches {
				n := int(math.Exp(r.Float64() * math.Log(maxWidth+1))) // all orders of magnitude alike
				out := sender.Send(t.Context(), batchOf("widths", payloads[:min(n, maxWidth)]...))
				require.NoError(t, out.Err)
			}
			require.EqualValues(t, pid, ask("SELECT pg_backend_pid()"), "all on one connection")
			require.LessOrEqual(t, ask("SELECT count(*) FROM pg_prepared_statements"), int64(12))
			require.Less(t, memory()-fresh, int64(8<<20))
			require.EqualValues(t, batches, sender.Stats().Statements)
		})
	}
}

// On a borrowed pool, whose driver prepares on first use, a width costs two round trips once.
func TestSecondBatchOfAWidthCostsOneRoundTrip(t *testing.T) {
	dsn := testDSN(t)
	proxy, through := proxyTo(t, dsn, pgproxy.Options{})
	cfg, err := pgx.ParseConfig(through + " application_name=borrowed")
	require.NoError(t, err)
	// Without pgx's ping of a connection that comes out of the pool: that one is the pool's affair.
	pool := stdlib.OpenDB(*cfg, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	defer func() { require.NoError(t, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	sender, err := NewSenderOn(pool, SenderConfig{})
	require.NoError(t, err)

	trips := func(n int) int64 {
		before := proxy.Stats()["borrowed"].RoundTrips
		require.NoError(t, sender.Send(t.Context(), batchOf("c", numbered(n)...)).Err)
		return proxy.Stats()["borrowed"].RoundTrips - before
	}
	require.EqualValues(t, 2, trips(600))
	require.EqualValues(t, 1, trips(600))
	require.EqualValues(t, 1, trips(777), "the same width")
	require.EqualValues(t, 2, trips(2000))
}

// What an operator finds in pg_stat_activity, and what the session is set to.
func TestSenderSession(t *testing.T) {
	dsn := testDSN(t)
	r := startRig(t, SenderConfig{DSN: dsn + " application_name=svc"}, "c")
	r.addAll("c", []string{"x"})
	r.settled("c")
	look := admin(t, dsn)
	require.Equal(t, "svc notify-pump", query[string](t, look, "SELECT application_name FROM pg_stat_activity WHERE "+onlyPump))
	require.EqualValues(t, r.sender.Stats().BackendPID, query[int](t, look, "SELECT pid FROM pg_stat_activity WHERE "+onlyPump))
	require.EqualValues(t, 1, r.sender.Stats().Connects)

	setting := func(s *Sender) (value string) {
		conn, err := s.db.Conn(t.Context())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.Raw(func(c any) error {
			return c.(*stdlib.Conn).Conn().QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&value)
		}))
		return value
	}
	require.Equal(t, "off", setting(r.sender))
	obeyed, err := NewSender(SenderConfig{DSN: dsn + " synchronous_commit=local"})
	require.NoError(t, err)
	require.Equal(t, "local", setting(obeyed))
	require.NoError(t, obeyed.Close())
}

// A pool of one connection that is somebody's all the time does not hold up a pump with a connection of its own; borrowed, the pool is free
// between two batches.
func TestSenderBesideAPoolOfOne(t *testing.T) {
	dsn := testDSN(t)
	pool, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	ears := listen(t, dsn, "c")

	held, err := pool.Conn(t.Context())
	require.NoError(t, err)
	r := startRig(t, SenderConfig{DSN: dsn}, "c")
	r.addAll("c", []string{"own"})
	ears.awaits("c", "own")
	require.NoError(t, held.Close())

	borrowed, err := NewSenderOn(pool, SenderConfig{})
	require.NoError(t, err)
	for i := range 10 {
		require.NoError(t, borrowed.Send(t.Context(), batchOf("c", fmt.Sprint("borrowed", i))).Err)
		var one int
		require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT 1").Scan(&one))
	}
	ears.awaits("c", "borrowed9")
}

// Channel names and payloads are taken as they are.
func TestOddNamesAndPayloadsArriveUnchanged(t *testing.T) {
	dsn := testDSN(t)
	channel := `We"ird; -- $1 ☃`
	ears := listen(t, dsn, channel)
	r := startRig(t, SenderConfig{DSN: dsn}, channel)
	payloads := []string{"", "'", `"`, "$1", "a;b", "é€😀", "\n\t", strings.Repeat("y", 7999)}
	r.addAll(channel, payloads)
	ears.awaits(channel, payloads...)
}

// Oldest first: within a channel the order of arrival is the order of delivery.
func TestOrderOfDelivery(t *testing.T) {
	dsn := testDSN(t)
	ears := listen(t, dsn, "c")
	r := startRig(t, SenderConfig{DSN: dsn}, "c")
	payloads := numbered(20_000)
	r.addAll("c", payloads)
	ears.awaits("c", payloads...)
	for i, said := range ears.order {
		require.Equal(t, "c "+payloads[i], said)
	}
	_, err := r.close(context.Background())
	require.NoError(t, err)
}
