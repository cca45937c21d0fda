package pgproxy_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// deadline is generous: it ends a test that hangs, it measures nothing.
const deadline = 30 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// start gives a proxy in front of a database of the test's own, and the database's direct DSN.
func start(t *testing.T, opts pgproxy.Options) (*pgproxy.Proxy, string) {
	t.Helper()
	dsn := dbtest.DSN(t)
	return startFor(t, dsn, opts), dsn
}

func startFor(t testing.TB, dsn string, opts pgproxy.Options) *pgproxy.Proxy {
	t.Helper()
	cfg, err := pgconn.ParseConfig(dsn)
	require.NoError(t, err)
	p, err := pgproxy.Start(net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)), opts)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func dial(ctx context.Context, dsn, app string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = app
	return pgx.ConnectConfig(ctx, cfg)
}

func connect(t *testing.T, dsn, app string) *pgx.Conn {
	t.Helper()
	conn, err := dial(testContext(t), dsn, app)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the test's own context has ended by now
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

func selectOne(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	require.NoError(t, ping(testContext(t), conn))
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	var one int
	return conn.QueryRow(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol).Scan(&one)
}

// fastest is the shortest of n round trips: what the wire costs, without what the machine happens to do besides.
func fastest(t *testing.T, conn *pgx.Conn, n int) time.Duration {
	t.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		begin := time.Now()
		selectOne(t, conn)
		took[i] = time.Since(begin)
	}
	return slices.Min(took)
}

func TestRoundTripTakesTheConfiguredTime(t *testing.T) {
	p, _ := start(t, pgproxy.Options{})
	conn := connect(t, p.DSN(dbtest.DSN(t)), "rtt")
	undelayed := fastest(t, conn, 50)
	for _, rtt := range []time.Duration{time.Millisecond, 4100 * time.Microsecond, 20 * time.Millisecond} {
		p.SetRTT(rtt)
		got := fastest(t, conn, 40)
		t.Logf("rtt %v: fastest %v (undelayed %v)", rtt, got, undelayed)
		assert.GreaterOrEqual(t, got, rtt)
		assert.Less(t, got-undelayed, rtt+rtt/10+100*time.Microsecond)
	}
}

func TestDelayIsNoThroughputLimit(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{RTT: 40 * time.Millisecond})
	conn := connect(t, p.DSN(dsn), "pipeline")
	ctx := testContext(t)
	before := p.Stats()["pipeline"]
	pipeline := conn.PgConn().StartPipeline(ctx)
	const n = 500
	begin := time.Now()
	for range n {
		pipeline.SendQueryParams("SELECT 1", nil, nil, nil, nil)
		require.NoError(t, pipeline.Sync())
	}
	for syncs := 0; syncs < n; {
		result, err := pipeline.GetResults()
		require.NoError(t, err)
		switch r := result.(type) {
		case *pgconn.ResultReader:
			_, err := r.Close()
			require.NoError(t, err)
		case *pgconn.PipelineSync:
			syncs++
		}
	}
	require.NoError(t, pipeline.Close())
	// One after the other they would take 20 s.
	assert.Less(t, time.Since(begin), 10*time.Second)
	after := p.Stats()["pipeline"]
	assert.EqualValues(t, n, after.Statements-before.Statements)
	assert.Less(t, after.RoundTrips-before.RoundTrips, int64(n/2), "a pipeline does not wait for each answer")

	var big string
	begin = time.Now()
	require.NoError(t, conn.QueryRow(ctx, "SELECT repeat('x', 20000000)").Scan(&big))
	assert.Len(t, big, 20_000_000)
	assert.Less(t, time.Since(begin), 10*time.Second)
}

func TestJitterOnlyAdds(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{RTT: 2 * time.Millisecond, Jitter: 8 * time.Millisecond})
	conn := connect(t, p.DSN(dsn), "jitter")
	var took []time.Duration
	for range 100 {
		begin := time.Now()
		selectOne(t, conn)
		took = append(took, time.Since(begin))
	}
	assert.GreaterOrEqual(t, slices.Min(took), 2*time.Millisecond)
	assert.Greater(t, slices.Max(took)-slices.Min(took), 2*time.Millisecond)
}

func TestStatsPerApplication(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	ctx := testContext(t)
	listener := connect(t, p.DSN(dsn), "svc notify-listener")
	_, err := listener.Exec(ctx, "LISTEN news")
	require.NoError(t, err)
	pump := connect(t, p.DSN(dsn), "svc notify-pump")
	before := p.Stats()
	const n = 20
	for i := range n {
		_, err := pump.Exec(ctx, "SELECT pg_notify($1,$2)", pgx.QueryExecModeExec, "news", fmt.Sprint(i))
		require.NoError(t, err)
	}
	for i := range n {
		got, err := listener.WaitForNotification(ctx)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(i), got.Payload)
	}
	got := p.Stats()
	pumped := got.Matching("notify-pump")
	assert.EqualValues(t, 1, pumped.Connections)
	assert.EqualValues(t, n, pumped.Statements-before.Matching("notify-pump").Statements)
	assert.EqualValues(t, n, pumped.RoundTrips-before.Matching("notify-pump").RoundTrips)
	assert.Zero(t, pumped.Notifications)
	assert.Positive(t, pumped.BytesToServer)
	assert.Positive(t, pumped.BytesToClient)
	heard := got["svc notify-listener"]
	assert.EqualValues(t, n, heard.Notifications)
	assert.EqualValues(t, 1, heard.Statements)
	assert.EqualValues(t, 1, heard.RoundTrips)
	assert.EqualValues(t, 2, got.Matching("").Connections)
}

func TestPreparedStatementCostsOneMoreRoundTripOnce(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	conn := connect(t, p.DSN(dsn), "prepared")
	ctx := testContext(t)
	trips := func() int64 {
		before := p.Stats()["prepared"].RoundTrips
		var v int
		require.NoError(t, conn.QueryRow(ctx, "SELECT $1::int", 7).Scan(&v))
		return p.Stats()["prepared"].RoundTrips - before
	}
	assert.EqualValues(t, 2, trips(), "prepare, then execute")
	assert.EqualValues(t, 1, trips())
}

func TestBlackholeSwallowsAndDoesNotClose(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	idle := connect(t, p.DSN(dsn), "idle")
	busy := connect(t, p.DSN(dsn), "busy")
	selectOne(t, idle)
	p.Blackhole(true)
	short, cancel := context.WithTimeout(testContext(t), 200*time.Millisecond)
	defer cancel()
	err := ping(short, busy)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	short, cancel = context.WithTimeout(testContext(t), 200*time.Millisecond)
	defer cancel()
	_, err = dial(short, p.DSN(dsn), "late")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	p.Blackhole(false)
	selectOne(t, idle) // lost nothing, goes on
	selectOne(t, connect(t, p.DSN(dsn), "after"))
}

func TestBlackholeHidesThatTheServerClosed(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	conn := connect(t, p.DSN(dsn), "victim")
	direct := connect(t, dsn, "operator")
	p.Blackhole(true)
	_, err := direct.Exec(testContext(t), "SELECT pg_terminate_backend($1)", conn.PgConn().PID())
	require.NoError(t, err)
	short, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
	defer cancel()
	_, err = conn.WaitForNotification(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	p.Blackhole(false)
	require.Error(t, ping(testContext(t), conn))
}

func TestCutMatching(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	pump := connect(t, p.DSN(dsn), "svc notify-pump")
	rpc := connect(t, p.DSN(dsn), "svc")
	assert.Equal(t, 1, p.CutMatching("notify-pump"))
	require.Error(t, ping(testContext(t), pump))
	selectOne(t, rpc)
	assert.Positive(t, p.CutAll()) // pgx may be sending a cancel request for the first one
	require.Error(t, ping(testContext(t), rpc))
	selectOne(t, connect(t, p.DSN(dsn), "again"))
}

func TestRefuse(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	conn := connect(t, p.DSN(dsn), "old")
	require.NoError(t, p.Refuse(true))
	_, err := dial(testContext(t), p.DSN(dsn), "new")
	require.ErrorContains(t, err, "refused")
	selectOne(t, conn)
	require.NoError(t, p.Refuse(false))
	selectOne(t, connect(t, p.DSN(dsn), "new"))
}

func TestSetUpstreamIsAFailover(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	other, _ := start(t, pgproxy.Options{}) // another address for the same server
	conn := connect(t, p.DSN(dsn), "app")
	p.SetUpstream(other.Addr())
	p.CutAll()
	require.Error(t, ping(testContext(t), conn))
	selectOne(t, connect(t, p.DSN(dsn), "moved"))
	assert.EqualValues(t, 1, other.Stats()["moved"].Connections)
}

func TestUnreachableUpstreamEndsTheConnection(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	p.SetUpstream("127.0.0.1:1")
	_, err := dial(testContext(t), p.DSN(dsn), "app")
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestEncryptionIsDeclined(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	cfg, err := pgx.ParseConfig(p.DSN(dsn))
	require.NoError(t, err)
	prefer, err := pgx.ConnectConfig(testContext(t), mustParse(t, fmt.Sprintf(
		"postgres://%s:%s@%s/%s?sslmode=prefer", cfg.User, cfg.Password, p.Addr(), cfg.Database)))
	require.NoError(t, err)
	selectOne(t, prefer)
	require.NoError(t, prefer.Close(testContext(t)))
}

func mustParse(t *testing.T, dsn string) *pgx.ConnConfig {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	return cfg
}

func TestCancelRequestPasses(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	conn := connect(t, p.DSN(dsn), "sleeper")
	done := make(chan error, 1)
	ctx := testContext(t)
	go func() {
		_, err := conn.Exec(ctx, "SELECT pg_sleep(25)")
		done <- err
	}()
	direct := connect(t, dsn, "operator")
	require.Eventually(t, func() bool {
		var active bool
		err := direct.QueryRow(ctx, "SELECT state = 'active' FROM pg_stat_activity WHERE pid = $1", conn.PgConn().PID()).Scan(&active)
		return err == nil && active
	}, deadline, 10*time.Millisecond)
	require.NoError(t, conn.PgConn().CancelRequest(ctx))
	require.ErrorContains(t, <-done, "57014")
	assert.EqualValues(t, 1, p.Stats().Matching("").Connections)
}

func TestCloseEndsEverything(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{RTT: 10 * time.Millisecond})
	conn := connect(t, p.DSN(dsn), "app")
	p.Blackhole(true)
	p.Close()
	p.Close()
	require.Error(t, ping(testContext(t), conn))
	_, err := net.Dial("tcp", p.Addr())
	require.Error(t, err)
}

func TestStartRejectsBadAddress(t *testing.T) {
	_, err := pgproxy.Start("nowhere", pgproxy.Options{})
	require.ErrorContains(t, err, `upstream address "nowhere"`)
	_, err = pgproxy.Start("127.0.0.1:5432", pgproxy.Options{Listen: "127.0.0.1:notaport"})
	require.ErrorContains(t, err, "listen")
}
