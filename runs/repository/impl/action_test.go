package impl

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

// proxyTo puts a proxy in front of the database of config.
func proxyTo(t testing.TB, config database.DbConfig, options pgproxy.Options) *pgproxy.Proxy {
	t.Helper()
	proxy, err := pgproxy.Start(net.JoinHostPort(config.Postgres.Host, strconv.Itoa(config.Postgres.Port)), options)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return proxy
}

// pumpThrough returns a repository of which only the pump goes through the proxy. Its loop does not run yet: what is announced before start
// is called is one batch for each channel.
func pumpThrough(t testing.TB, config database.DbConfig, proxy *pgproxy.Proxy, execTimeout time.Duration) (r *actionRepo, start func()) {
	t.Helper()
	r = openTestRepo(t, config, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	pump, err := pgnotify.NewPump(runUpdatesChannel, actionUpdatesChannel)
	require.NoError(t, err)
	sender, err := pgnotify.NewSender(pgnotify.SenderConfig{DSN: proxy.DSN(r.dsn), ExecTimeout: execTimeout})
	require.NoError(t, err)
	ctx, abandon := context.WithCancel(context.Background())
	r.pump, r.sender, r.abandonNotifyLoop, r.notifyLoopStopped = pump, sender, abandon, make(chan struct{})
	started := sync.OnceFunc(func() { go r.runNotifyLoop(ctx) })
	t.Cleanup(started) // Close waits for the loop
	return r, started
}

// sent waits until everything that was announced on the channel has been delivered.
func sent(t testing.TB, r *actionRepo, channel string) (s pgnotify.ChannelStats) {
	t.Helper()
	require.Eventually(t, func() bool {
		s = r.pump.Stats(channel)
		return s.Pending+s.InFlight == 0
	}, eventually, poll)
	require.Equal(t, s.Added, s.Coalesced+s.Delivered+s.Rejected, "the counts add up")
	return s
}

// isNotify tells the pump's statements from everything else.
func isNotify(s pgproxy.Statement) bool { return strings.Contains(s.SQL, "pg_notify($1,") }

// N changes that wait on both channels cost one statement and one round trip for each thousand, counted on the wire, and an independent
// session hears every one of them once.
func TestRunNotifyLoopSendsAThousandPerRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 999, 1000, 1001, 1663, 1664, 1665, 5000, 100_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			config := testDbConfig(t)
			proxy := proxyTo(t, config, pgproxy.Options{})
			r, start := pumpThrough(t, config, proxy, 0)
			ear := newEar(t, r.dsn)

			want := make(map[string]int, 2*n)
			for i := range n {
				run, action := runID(fmt.Sprint("r", i)), actionID("run", fmt.Sprint("a", i))
				r.notifyRunUpdate(t.Context(), run)
				r.notifyActionUpdate(t.Context(), action)
				want[runUpdatesChannel+" "+runKey(run)] = 1
				want[actionUpdatesChannel+" "+actionKey(action)] = 1
			}
			start()
			assert.Equal(t, want, ear.nextN(2*n))
			for _, channel := range []string{runUpdatesChannel, actionUpdatesChannel} {
				assert.EqualValues(t, n, sent(t, r, channel).Delivered)
			}
			ear.silent(r)
			sent(t, r, actionUpdatesChannel)

			crossed := proxy.Stats().Matching("notify-pump")
			statements := int64(2*((n+999)/1000)) + 1 // ear.silent sends one more
			assert.Equal(t, statements+1, crossed.Statements, "one more, with the connection, asks which server it is")
			assert.Equal(t, statements+1, crossed.RoundTrips, "and goes with the preparing of all statements")
			assert.EqualValues(t, 1, crossed.Connections)
		})
	}
}

// An update that is written after the batch has left wakes again: the watcher may have read before it.
func TestUpdateBehindTheBatchWakesAgain(t *testing.T) {
	config := testDbConfig(t)
	proxy := proxyTo(t, config, pgproxy.Options{})
	r, start := pumpThrough(t, config, proxy, 0)
	ear := newEar(t, r.dsn)
	id := actionID("run", "a1")
	create(t, r, id)
	start()
	require.Equal(t, actionUpdatesChannel+" "+actionKey(id), ear.next())
	sent(t, r, actionUpdatesChannel)

	release := proxy.HoldBack(isNotify, time.Second)
	updatePhase(t, r, id, running)
	require.Eventually(t, func() bool { return r.pump.Stats(actionUpdatesChannel).InFlight == 1 }, eventually, poll)
	updatePhase(t, r, id, common.ActionPhase_ACTION_PHASE_SUCCEEDED)
	require.NoError(t, r.NotifyStateUpdate(t.Context(), id))
	assert.Equal(t, 1, r.pump.Stats(actionUpdatesChannel).Pending, "new work, and folded")
	release()

	require.Equal(t, actionUpdatesChannel+" "+actionKey(id), ear.next())
	require.Equal(t, actionUpdatesChannel+" "+actionKey(id), ear.next())
	ear.silent(r)
}

// While the pump's connection is a black hole, writes go on at the speed of their own connection, and nothing is lost.
func TestWritesDoNotWaitForThePump(t *testing.T) {
	config := testDbConfig(t)
	proxy := proxyTo(t, config, pgproxy.Options{})
	r, start := pumpThrough(t, config, proxy, time.Second)
	start()
	ear := newEar(t, r.dsn)
	off := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	const actions, writers = 400, 20 // more than the 256 that the serial pump has room for
	for i := range actions {
		create(t, off, actionID("run", fmt.Sprint("a", i)))
	}

	slowest := func(r *actionRepo, phase common.ActionPhase) time.Duration {
		took := make([]time.Duration, actions)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := w; i < actions; i += writers {
					start := time.Now()
					err := r.UpdateActionPhase(t.Context(), actionID("run", fmt.Sprint("a", i)), phase, 1, 0, nil, nil)
					assert.NoError(t, err)
					took[i] = time.Since(start)
				}
			})
		}
		wg.Wait()
		slices.Sort(took)
		return took[actions*95/100]
	}
	without := slowest(off, running)
	proxy.Blackhole(true)
	with := slowest(r, common.ActionPhase_ACTION_PHASE_SUCCEEDED)
	t.Logf("p95 of a write: %s with the pump cut off, %s without announcing", with, without)
	// The margin is for a loaded machine. To wait for the pump would take as long as the black hole lasts.
	assert.Less(t, with, 5*without+100*time.Millisecond)

	proxy.Blackhole(false)
	heard := make(map[string]bool)
	for len(heard) < actions {
		heard[ear.next()] = true
	}
}

// The request's context plays no part once the row is there: ended before, or ended while the change waits to be announced.
func TestEndedRequestDoesNotLoseTheWakeUp(t *testing.T) {
	config := testDbConfig(t)
	proxy := proxyTo(t, config, pgproxy.Options{})
	r, start := pumpThrough(t, config, proxy, time.Second)
	ear := newEar(t, r.dsn)
	proxy.Blackhole(true)
	start()

	ctx, cancel := context.WithCancel(t.Context())
	id := actionID("run", rootActionName)
	require.NoError(t, r.UpdateActionPhase(ctx, id, running, 1, 0, nil, nil)) // no such row: nothing to announce
	_, err := r.CreateAction(ctx, newRoot("run"), false)
	require.NoError(t, err)
	cancel()
	r.notifyActionUpdate(ctx, actionID("run", "a7"))
	r.notifyRunUpdate(ctx, runID("other"))

	proxy.Blackhole(false)
	want := map[string]bool{
		actionUpdatesChannel + " proj/dev/run/a0": true, actionUpdatesChannel + " proj/dev/run/a7": true,
		runUpdatesChannel + " proj/dev/run": true, runUpdatesChannel + " proj/dev/other": true,
	}
	for len(want) > 0 {
		delete(want, ear.next())
	}
}

// The pump's backend is killed again and again under load, the pool being of one connection: every change is heard, and counted once.
func TestKilledPumpLosesNoUpdate(t *testing.T) {
	config := testDbConfig(t)
	config.MaxOpenConnections, config.MaxIdleConnections = 1, 1
	r := openTestRepo(t, config)
	ear := newEar(t, r.dsn)
	const kills = 20
	unheard := make(map[string]bool)
	written := 0
	for range kills {
		for range 10 {
			written++
			id := actionID("run", fmt.Sprint("a", written))
			create(t, r, id)
			unheard[actionUpdatesChannel+" "+actionKey(id)] = true
		}
		_, err := ear.conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE '%notify-pump'`)
		require.NoError(t, err)
	}
	for len(unheard) > 0 {
		delete(unheard, ear.next())
	}
	s := sent(t, r, actionUpdatesChannel)
	assert.EqualValues(t, written, s.Added)
	assert.EqualValues(t, written, s.Coalesced+s.Delivered)
	pool, err := r.db.DB()
	require.NoError(t, err)
	assert.Zero(t, pool.Stats().InUse)
	assert.LessOrEqual(t, pool.Stats().OpenConnections, 1)
	updatePhase(t, r, actionID("run", "a1"), running)
	for ear.next() != actionUpdatesChannel+" proj/dev/run/a1" { // a kill behind the commit makes one come twice
	}
}

// 5,000 changes wait, a batch is in flight, writers are still calling: all that was taken is out when Close returns, and the rest is said.
func TestCloseSendsWhatWaits(t *testing.T) {
	log := logged(t)
	config := testDbConfig(t)
	proxy := proxyTo(t, config, pgproxy.Options{RTT: 4 * time.Millisecond})
	r, start := pumpThrough(t, config, proxy, 0)
	ear := newEar(t, r.dsn)
	want := make(map[string]bool)
	for i := range 5000 {
		id := actionID("run", fmt.Sprint("a", i))
		r.notifyActionUpdate(t.Context(), id)
		want[actionUpdatesChannel+" "+actionKey(id)] = true
	}
	start()
	require.Eventually(t, func() bool { return r.pump.Stats(actionUpdatesChannel).InFlight > 0 }, eventually, poll)

	done := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
					r.notifyRunUpdate(context.Background(), runID(fmt.Sprintf("w%d-%d", w, i)))
				}
			}
		})
	}
	require.NoError(t, r.Close(t.Context()))
	require.NoError(t, r.Close(t.Context()))
	r.notifyRunUpdate(context.Background(), runID("late"))
	close(done)
	writers.Wait()

	runs := r.pump.Stats(runUpdatesChannel)
	assert.Zero(t, runs.Pending+runs.InFlight)
	assert.Equal(t, runs.Added, runs.Coalesced+runs.Delivered)
	assert.Contains(t, log(), "came after the end of the pump", "what comes too late is said")
	for len(want) > 0 {
		delete(want, ear.next())
	}
}
