package pgnotify

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

// Each of these tests ends by sending once more and hearing it.
func (r *rig) provesItWorks(e *ear, channels ...string) {
	r.t.Helper()
	for _, channel := range channels {
		payload := fmt.Sprintf("proof %s %d", channel, time.Now().UnixNano())
		require.True(r.t, r.pump.Add(channel, payload))
		e.awaits(channel, payload)
		r.settled(channel)
	}
}

// killer ends the pump's backends, each once: a killed one is still to be seen for a moment.
type killer struct {
	conn   *pgx.Conn
	killed map[int]bool
}

func newKiller(t testing.TB, dsn string) *killer {
	return &killer{conn: admin(t, dsn), killed: map[int]bool{0: true}}
}

// kills ends a backend that is in the given condition, waiting for one.
func (k *killer) kills(t testing.TB, condition string) {
	t.Helper()
	require.Eventually(t, func() bool {
		pid := query[int](t, k.conn, `SELECT coalesce(max(pid), 0) FROM (
			SELECT pid, pg_terminate_backend(pid) AS killed FROM pg_stat_activity WHERE `+onlyPump+" AND "+condition+`) k WHERE killed`)
		again := k.killed[pid]
		k.killed[pid] = true
		return !again
	}, soon, look/4)
}

// The pump's backend is killed 50 times while it waits for work and 50 times while it has some: all is heard, and counted once.
func TestKilledBackendLosesNothing(t *testing.T) {
	dsn := testDSN(t)
	ears, killer := listen(t, dsn, "a", "b"), newKiller(t, dsn)
	r := startRig(t, SenderConfig{DSN: dsn}, "a", "b")

	idle := prefixed("idle", 50)
	for _, payload := range idle {
		r.provesItWorks(ears, "b")
		killer.kills(t, "state = 'idle'")
		r.pump.Add("a", payload)
	}
	ears.awaits("a", idle...)

	stop := r.load(4, 100*time.Microsecond, "a", "b")
	for range 50 {
		before := r.sender.Stats().Statements
		require.Eventually(t, func() bool { return r.sender.Stats().Statements > before }, soon, look)
		killer.kills(t, "state = 'active'")
	}
	added := stop()
	for channel, payloads := range added {
		ears.awaits(channel, payloads...)
		s := r.settled(channel)
		require.Equal(t, s.Added-s.Coalesced, s.Delivered, "each key is counted once, however often it was sent")
		require.Zero(t, s.Rejected)
	}
	require.GreaterOrEqual(t, r.sender.Stats().Connects, uint64(100))
	r.provesItWorks(ears, "a", "b")
}

// The backend is killed in the midst of a commit: it waits for the lock that all commits with notifications need, held by a commit that waits
// for a replica that does not exist.
func TestKilledWhileItCommits(t *testing.T) {
	server := dbtest.StartServer(t, dbtest.WithSettings(map[string]string{
		"synchronous_standby_names": "nobody", "max_wal_senders": "1", "wal_level": "replica",
	}))
	dsn := server.DSN()
	local := dsn + " options='-c synchronous_commit=local'"
	ears, looker, holder := listen(t, local, "c"), admin(t, local), admin(t, dsn+" options='-c synchronous_commit=on'")
	r := startRig(t, SenderConfig{DSN: dsn}, "c")
	r.provesItWorks(ears, "c")

	held := make(chan struct{})
	go func() {
		defer close(held)
		_, _ = holder.Exec(context.Background(), "CREATE TABLE held (); NOTIFY elsewhere") // one transaction
	}()
	require.Eventually(t, func() bool {
		return query[bool](t, looker, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')")
	}, soon, look)
	payloads := prefixed("x", 100)
	r.addAll("c", payloads)
	killer := newKiller(t, local)
	for range 5 {
		killer.kills(t, "wait_event_type = 'Lock'")
	}
	require.Equal(t, 1, ears.total(), "nothing but the proof can have committed")
	query[int](t, looker, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	<-held
	ears.awaits("c", payloads...)
	require.EqualValues(t, 101, r.settled("c").Delivered)
	r.provesItWorks(ears, "c")
}

func TestServerRestartLosesNothing(t *testing.T) {
	for name, mode := range map[string]dbtest.Mode{"fast": dbtest.Fast, "immediate": dbtest.Immediate} {
		t.Run(name, func(t *testing.T) {
			server := dbtest.StartServer(t)
			// The pump's way can be shut, so that it comes back after the ears do: what is sent to nobody proves nothing.
			proxy, through := proxyTo(t, server.DSN(), pgproxy.Options{})
			r := startRig(t, SenderConfig{DSN: through}, "a", "b")
			ears := listen(t, server.DSN(), "a", "b")
			r.provesItWorks(ears, "a", "b")

			// Under load: whatever comes of what is sent just then, the counts add up and the pump goes on.
			stop := r.load(4, time.Millisecond, "a", "b")
			server.Restart(mode)
			stop()
			r.settled("a")
			r.settled("b")

			// What waits while the server is away arrives at those who listen when it is back.
			require.NoError(t, proxy.Refuse(true))
			proxy.CutAll()
			waiting := prefixed("waiting", 3000)
			r.addAll("a", waiting)
			r.addAll("b", waiting)
			server.Restart(mode)
			ears = listen(t, server.DSN(), "a", "b")
			require.NoError(t, proxy.Refuse(false))
			ears.awaits("a", waiting...)
			ears.awaits("b", waiting...)
			for _, channel := range []string{"a", "b"} {
				s := r.settled(channel)
				require.Equal(t, s.Added-s.Coalesced, s.Delivered)
			}
			r.provesItWorks(ears, "a", "b")
		})
	}
}

func TestIdleSessionTimeout(t *testing.T) {
	dsn := testDSN(t)
	ears, looker := listen(t, dsn, "c"), admin(t, dsn)
	_, err := looker.Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = 100', current_database()); END $$")
	require.NoError(t, err)
	r := startRig(t, SenderConfig{DSN: dsn}, "c")
	for range 5 {
		r.provesItWorks(ears, "c")
		require.Eventually(t, func() bool {
			return query[int](t, looker, "SELECT count(*) FROM pg_stat_activity WHERE "+onlyPump) == 0
		}, soon, look)
	}
	r.provesItWorks(ears, "c")
	require.GreaterOrEqual(t, r.sender.Stats().Connects, uint64(6))
}

// The address leads to a standby (25006), later to a server that takes writes; connections to the standby stay possible all the while. Only who
// lets go of the working connection to the wrong server gets to the right one.
func TestFailoverBehindTheSameAddress(t *testing.T) {
	primary := dbtest.StartServer(t)
	standby := primary.Standby(t)
	address := func(s *dbtest.Server) string { return fmt.Sprintf("127.0.0.1:%d", s.Port()) }
	proxy, through := proxyTo(t, standby.DSN(), pgproxy.Options{})
	proxy.SetUpstream(address(standby))
	r := startRig(t, SenderConfig{DSN: through}, "c")
	payloads := prefixed("x", 1500)
	r.addAll("c", payloads)
	require.Eventually(t, func() bool { return r.pump.Stats("c").Failures > 2 }, soon, look)
	require.ErrorContains(t, r.pump.Stats("c").LastErr, "25006")
	require.Equal(t, ReasonReadOnly, classify(r.pump.Stats("c").LastErr))

	ears := listen(t, primary.DSN(), "c")
	proxy.SetUpstream(address(primary))
	ears.awaits("c", payloads...)
	require.EqualValues(t, 1500, r.settled("c").Delivered)

	// And once more, the other way round: the primary is gone, and the standby is promoted only after a while.
	primary.Stop(dbtest.Fast)
	proxy.SetUpstream(address(standby))
	later := prefixed("y", 10)
	r.addAll("c", later)
	require.Eventually(t, func() bool { return classify(r.pump.Stats("c").LastErr) == ReasonReadOnly }, soon, look)
	require.NoError(t, proxy.Refuse(true)) // until somebody listens, which a standby does not offer
	standby.Promote()
	ears = listen(t, standby.DSN(), "c")
	require.NoError(t, proxy.Refuse(false))
	ears.awaits("c", later...)
	r.provesItWorks(ears, "c")
}

func TestDeallocateAll(t *testing.T) {
	dsn := testDSN(t)
	ears := listen(t, dsn, "c")
	r := startRig(t, SenderConfig{DSN: dsn}, "c")
	r.provesItWorks(ears, "c")
	for range 3 {
		_, err := r.sender.db.ExecContext(t.Context(), "DEALLOCATE ALL")
		require.NoError(t, err)
		r.provesItWorks(ears, "c")
	}
}

// The server commits, the answer does not arrive: heard twice, counted once.
func TestCutBetweenCommitAndAnswer(t *testing.T) {
	dsn := testDSN(t)
	proxy, through := proxyTo(t, dsn, pgproxy.Options{})
	ears := listen(t, dsn, "c")
	r := startRig(t, SenderConfig{DSN: through}, "c")
	r.provesItWorks(ears, "c")

	cut := proxy.CutBeforeReply(func(s pgproxy.Statement) bool { return strings.Contains(s.SQL, "pg_notify($1") })
	r.addAll("c", []string{"twice"})
	<-cut
	require.Eventually(t, func() bool {
		ears.mu.Lock()
		defer ears.mu.Unlock()
		return ears.heard["c twice"] == 2
	}, soon, look)
	s := r.settled("c")
	require.EqualValues(t, 2, s.Delivered, "the proof and this one")
	require.EqualValues(t, 1, s.Requeued)
	r.provesItWorks(ears, "c")
}

// A backend that stands still, and a network that swallows: given up after the timeout and replaced.
func TestHalfOpenConnectionIsReplaced(t *testing.T) {
	server := dbtest.StartServer(t)
	proxy, through := proxyTo(t, server.DSN(), pgproxy.Options{})
	ears := listen(t, server.DSN(), "c")
	r := startRig(t, SenderConfig{DSN: through, DialTimeout: time.Second, ExecTimeout: 500 * time.Millisecond}, "c")

	t.Run("frozen backend", func(t *testing.T) {
		r.provesItWorks(ears, "c")
		resume := server.PauseBackend(int(r.sender.Stats().BackendPID))
		defer resume()
		connects := r.sender.Stats().Connects
		r.provesItWorks(ears, "c")
		require.Greater(t, r.sender.Stats().Connects, connects)
	})
	t.Run("frozen server", func(t *testing.T) {
		r.provesItWorks(ears, "c")
		server.Pause()
		r.addAll("c", []string{"frozen"})
		// The first attempt meets the frozen backend, the later ones a server that accepts and never answers.
		require.Eventually(t, func() bool { return r.pump.Stats("c").Failures >= 2 }, soon, look)
		require.ErrorIs(t, r.pump.Stats("c").LastErr, context.DeadlineExceeded)
		server.Resume()
		ears.awaits("c", "frozen")
		r.provesItWorks(ears, "c")
	})
	t.Run("black hole", func(t *testing.T) {
		r.provesItWorks(ears, "c")
		proxy.Blackhole(true)
		r.addAll("c", []string{"hole"})
		require.Eventually(t, func() bool { return r.pump.Stats("c").Failures >= 2 }, soon, look)
		require.Equal(t, ReasonTimeout, classify(r.pump.Stats("c").LastErr))
		proxy.Blackhole(false)
		ears.awaits("c", "hole")
		r.provesItWorks(ears, "c")
	})
}

// While nothing can be sent, adding takes no longer than ever, and nothing is lost.
func TestWritersDoNotWaitForADeadDatabase(t *testing.T) {
	server := dbtest.StartServer(t)
	proxy, through := proxyTo(t, server.DSN(), pgproxy.Options{})
	r := startRig(t, SenderConfig{DSN: through, DialTimeout: 300 * time.Millisecond, ExecTimeout: 300 * time.Millisecond}, "c")
	ears := listen(t, server.DSN(), "c")
	r.provesItWorks(ears, "c")

	for name, weather := range map[string]struct{ begin, end func() }{
		"frozen":     {server.Pause, server.Resume},
		"black hole": {func() { proxy.Blackhole(true) }, func() { proxy.Blackhole(false) }},
		"refused": {
			func() { require.NoError(t, proxy.Refuse(true)); proxy.CutAll() },
			func() { require.NoError(t, proxy.Refuse(false)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.settled("c")
			weather.begin()
			r.pump.Add("c", "now it fails")
			require.Eventually(t, func() bool { return r.pump.Stats("c").Failures > 0 }, soon, look)

			const writers, each = 100, 1000
			payloads := prefixed(name, writers*each/10)
			var wg sync.WaitGroup
			start := time.Now()
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						r.pump.Add("c", payloads[(w*each+i)/10])
					}
				})
			}
			wg.Wait()
			// 100,000 adds. A single one that waited for the network would take 300 ms.
			require.Less(t, time.Since(start)/(writers*each), 20*time.Microsecond)
			weather.end()
			ears.awaits("c", payloads...)
		})
	}
	r.provesItWorks(ears, "c")
}

// A payload that only the server can refuse: the database's encoding has no such character.
func TestPoisonThatOnlyTheServerKnows(t *testing.T) {
	dsn := testDSN(t)
	looker := admin(t, dsn)
	name := query[string](t, looker, "SELECT current_database()") + "_latin1"
	_, err := looker.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
	require.NoError(t, err)
	defer func() {
		_, err := looker.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
	}()
	latin := withDatabase(dsn, name) + " client_encoding=UTF8"
	proxy, through := proxyTo(t, latin, pgproxy.Options{})
	ears := listen(t, latin, "c")
	r := startRig(t, SenderConfig{DSN: through}, "c")
	r.provesItWorks(ears, "c")

	good := prefixed("é", 500)
	poison := []string{"☃", strings.Repeat("x", 8000), strings.Repeat("€", 2667), "nul\x00", "bad\xff"}
	before := proxy.Stats().Matching(senderRole).RoundTrips
	lines := logged(t, func() {
		// As one batch: added while the sender is shut out.
		batch := batchOf("c", append(append(append([]string{}, good[:250]...), poison...), good[250:]...)...)
		batch.Entries = append(batch.Entries, Entry{Payload: strings.Repeat("y", 7999)})
		out := r.sender.Send(t.Context(), batch)
		require.NoError(t, out.Err)
		require.Equal(t, len(poison), out.Rejected)
		require.Equal(t, 501, out.Delivered())
	})
	require.Len(t, lines, len(poison))
	ears.awaits("c", good...)
	ears.awaits("c", strings.Repeat("y", 7999))
	require.LessOrEqual(t, proxy.Stats().Matching(senderRole).RoundTrips-before, int64(1+2*10), "two for each halving of 501")
	require.EqualValues(t, 1, r.sender.Stats().Connects)
	r.provesItWorks(ears, "c")
}

// Poison in the stream of a running pump: the good ones arrive with the same batch, the channel never rests.
func TestPoisonAmongTheGood(t *testing.T) {
	dsn := testDSN(t)
	ears := listen(t, dsn, "c")
	r := startRig(t, SenderConfig{DSN: dsn}, "c")
	good := prefixed("good", 500)
	poison := []string{strings.Repeat("x", 8000), strings.Repeat("€", 2667), "nul\x00", "bad\xff"}
	lines := logged(t, func() {
		for i, payload := range good {
			r.pump.Add("c", payload)
			if i%125 == 60 {
				r.pump.Add("c", poison[i/125])
			}
		}
		r.pump.Add("c", strings.Repeat("y", 7999))
		ears.awaits("c", good...)
		ears.awaits("c", strings.Repeat("y", 7999))
		r.settled("c")
	})
	s := r.pump.Stats("c")
	require.EqualValues(t, 4, s.Rejected)
	require.EqualValues(t, 501, s.Delivered)
	require.Zero(t, s.Requeued, "no retry")
	require.Len(t, lines, 4)
	require.Equal(t, 501, ears.total(), "nothing is truncated or sent twice")
	r.provesItWorks(ears, "c")
}

// 5,000 pending, a batch in flight, writers still calling: all of it is out when Close returns.
func TestCloseFlushes(t *testing.T) {
	dsn := testDSN(t)
	proxy, through := proxyTo(t, dsn, pgproxy.Options{RTT: 20 * time.Millisecond})
	ears := listen(t, dsn, "a", "b")
	r := startRig(t, SenderConfig{DSN: through}, "a", "b")
	release := proxy.HoldBack(func(s pgproxy.Statement) bool { return strings.Contains(s.SQL, "pg_notify($1") }, 300*time.Millisecond)
	first := prefixed("first", 100)
	r.addAll("a", first)
	require.Eventually(t, func() bool { return r.pump.Stats("a").InFlight > 0 }, soon, look)
	payloads := prefixed("x", 2500)
	r.addAll("a", payloads)
	r.addAll("b", payloads)
	require.Positive(t, r.pump.Stats("a").InFlight)
	release()
	stop := r.load(8, time.Millisecond, "a", "b")

	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	left, err := r.close(ctx)
	require.NoError(t, err)
	require.Zero(t, left)
	added := stop()
	for _, channel := range []string{"a", "b"} {
		ears.awaits(channel, append(payloads, added[channel]...)...)
		s := r.pump.Stats(channel)
		require.Zero(t, s.Pending+s.InFlight)
		require.Equal(t, s.Added-s.Coalesced, s.Delivered)
	}
	ears.awaits("a", first...)
	require.False(t, r.pump.Add("a", "late"))
	left, err = r.pump.Close(ctx)
	require.NoError(t, err)
	require.Zero(t, left)
	require.NoError(t, r.sender.Close())
}

// With the server away Close keeps its deadline and says how much was left, in each state that the loop can be in.
func TestCloseWithoutAServerKeepsItsDeadline(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never says a word
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, refusing.Close())

	dsnOf := func(a net.Addr) string {
		return fmt.Sprintf("host=127.0.0.1 port=%d user=u dbname=d sslmode=disable", a.(*net.TCPAddr).Port)
	}
	for name, dsn := range map[string]string{"dialling": dsnOf(silent.Addr()), "resting": dsnOf(refusing.Addr())} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, SenderConfig{DSN: dsn}, "a", "b")
			r.addAll("a", prefixed("x", 5000))
			r.addAll("b", prefixed("x", 10))
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			left, err := r.close(ctx)
			require.Less(t, time.Since(start), 4*time.Second, "less than the dial timeout")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "5010 notifications")
			require.Equal(t, 5010, left)
		})
	}
	t.Run("waiting for an answer", func(t *testing.T) {
		server := dbtest.StartServer(t)
		r := startRig(t, SenderConfig{DSN: server.DSN()}, "a")
		ears := listen(t, server.DSN(), "a")
		r.provesItWorks(ears, "a")
		server.Pause()
		defer server.Resume()
		r.addAll("a", prefixed("x", 5000))
		require.Eventually(t, func() bool { return r.pump.Stats("a").InFlight > 0 }, soon, look)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		left, err := r.close(ctx)
		require.Less(t, time.Since(start), 5*time.Second, "less than the statement timeout")
		require.Error(t, err)
		require.Equal(t, 5000, left)
	})
}
