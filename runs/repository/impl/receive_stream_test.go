package impl

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// countReads counts the reads of actions by run.
func countReads(t testing.TB, r *actionRepo) (of func(run string) int64) {
	t.Helper()
	var counts sync.Map
	count := func(run string) *atomic.Int64 {
		n, _ := counts.LoadOrStore(run, new(atomic.Int64))
		return n.(*atomic.Int64)
	}
	require.NoError(t, r.db.Callback().Query().After("gorm:query").Register("count", func(tx *gorm.DB) {
		if actions, ok := tx.Statement.Dest.(*[]*models.Action); ok && len(*actions) > 0 {
			count((*actions)[0].RunName).Add(1)
		}
	}))
	return func(run string) int64 { return count(run).Load() }
}

// A client that stops reading while ten thousand actions of its run change, and others that go on meanwhile.
func TestAClientThatDoesNotReadDelaysNobodyAndEndsComplete(t *testing.T) {
	const n = 10_000
	quietLog(t)
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))
	addActions(t, r, "big", n)
	addActions(t, r, "other", 2)
	stuck := follow(t, r, "big", "")
	other := watchAction(t, r, actionID("other", "a1"))
	gate := make(chan struct{})
	stuck.pause.Store(&gate)

	require.NoError(t, r.db.Exec("UPDATE actions SET phase = 5, updated_at = clock_timestamp() WHERE run_name = 'big'").Error)
	var lags []time.Duration
	for i := range n {
		r.notifyActionUpdate(t.Context(), actionID("big", fmt.Sprint("a", i)))
		if i%100 == 0 {
			begin := time.Now()
			require.NoError(t, r.UpdateActionPhase(t.Context(), actionID("other", "a1"), running, uint32(i+1), 0, nil, nil))
			for other.next().Attempts != uint32(i+1) {
			}
			lags = append(lags, time.Since(begin))
		}
	}
	slices.Sort(lags)
	t.Logf("another stream's lag meanwhile: median %s, most %s", lags[len(lags)/2], lags[len(lags)-1])
	assert.Less(t, lags[len(lags)/2], time.Second)
	finished, _ := stuck.count()
	assert.Less(t, finished, n/2, "it does not read")
	assert.Less(t, r.listener.Stats().Backlog.Kept, n+10, "kept once, for all")

	close(gate)
	stuck.pause.Store(nil)
	require.Eventually(t, func() bool { finished, _ := stuck.count(); return finished == n }, patience, poll)
}

// The same with so little room in memory that what the client misses has to be found in the tables again, for it alone.
func TestAClientThatIsTooFarBehindIsToldFromTheTables(t *testing.T) {
	const n = 5_000
	quietLog(t)
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{CatchUpInterval: far, BacklogPayloads: 500}))
	addActions(t, r, "big", n)
	stuck, reading := follow(t, r, "big", ""), follow(t, r, "big", "")
	gate := make(chan struct{})
	stuck.pause.Store(&gate)
	for i := 0; i < n; i += 100 { // no more at a time than the one that reads can follow
		require.NoError(t, r.db.Exec("UPDATE actions SET phase = 5, updated_at = clock_timestamp() WHERE run_name = 'big' AND substr(name, 2)::int BETWEEN ? AND ?", i, i+99).Error)
		for k := range 100 {
			r.notifyActionUpdate(t.Context(), actionID("big", fmt.Sprint("a", i+k)))
		}
		require.Eventually(t, func() bool { finished, _ := reading.count(); return finished >= i+100 }, eventually, time.Millisecond)
	}
	close(gate)
	stuck.pause.Store(nil)
	require.Eventually(t, func() bool { finished, _ := stuck.count(); return finished == n }, patience, poll)
	stats := r.listener.Stats().Backlog
	assert.Positive(t, stats.Gaps)
	assert.Zero(t, stats.Lost)
}

// Five hundred streams on as many runs: a run's updates cost the others nothing, and a new connection does not make everybody read.
func TestManyStreamsReadOnlyWhatChanged(t *testing.T) {
	const streams, updates = 500, 2000
	quietLog(t)
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))
	reads := countReads(t, r)
	for i := range streams {
		addActions(t, r, fmt.Sprint("run", i), 2)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer func() {
		cancel()
		watching.Wait()
	}()
	var seen sync.Map
	for i := range streams {
		updates := make(chan *models.Action)
		watching.Go(func() { r.WatchAllActionUpdates(ctx, runID(fmt.Sprint("run", i)), updates, make(chan error, 1)) })
		watching.Go(func() {
			for {
				select {
				case action := <-updates:
					seen.Store(actionKey(actionID(action.RunName, action.Name)), action.Attempts)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return subscriberCount(r, r.actionSubscribers) == streams }, eventually, poll)
	shows := func(run string, attempt uint32) func() bool {
		return func() bool {
			got, _ := seen.Load(actionKey(actionID(run, "a1")))
			return got == attempt
		}
	}
	update := func(run string, attempt uint32) time.Duration {
		begin := time.Now()
		require.NoError(t, r.UpdateActionPhase(t.Context(), actionID(run, "a1"), common.ActionPhase_ACTION_PHASE_RUNNING, attempt, 0, nil, nil))
		return time.Since(begin)
	}

	for i := range updates {
		update("run0", uint32(i+1))
	}
	require.Eventually(t, shows("run0", updates), eventually, poll)
	assert.Positive(t, reads("run0"))
	for i := 1; i < streams; i++ {
		require.Zero(t, reads(fmt.Sprint("run", i)))
	}

	before := reads("run0")
	var latencies []time.Duration
	for attempt := range 3 {
		require.Positive(t, killBackends(t, r, "notify-listener"))
		require.NoError(t, r.db.Exec("UPDATE actions SET attempts = ?, updated_at = clock_timestamp() WHERE run_name = 'run7' AND name = 'a1'", 100+attempt).Error)
		for i := range 100 {
			latencies = append(latencies, update("run0", uint32(updates+100*attempt+i+1)))
		}
		require.Eventually(t, shows("run7", uint32(100+attempt)), eventually, poll)
		awaitReady(t, r)
	}
	slices.Sort(latencies)
	t.Logf("a write's time while the listener reconnects: median %s, p95 %s", latencies[len(latencies)/2], latencies[len(latencies)*95/100])
	assert.Less(t, latencies[len(latencies)*95/100], 5*time.Second)
	for i := 1; i < streams; i++ {
		if i != 7 {
			require.Zero(t, reads(fmt.Sprint("run", i)), "a stream whose run has not changed")
		}
	}
	assert.LessOrEqual(t, reads("run0")-before, int64(2*300+10))
}

// A thousand watches come and go while changes flow; run with -race.
func TestAThousandWatchesComeAndGo(t *testing.T) {
	quietLog(t)
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))
	addActions(t, r, "run", 100)
	g := follow(t, r, "run", "")
	ctx, cancel := context.WithCancel(t.Context())
	var comers sync.WaitGroup
	var rounds atomic.Int64
	for range 1000 {
		comers.Go(func() {
			for ctx.Err() == nil {
				payloads, unsubscribe := r.subscribe(r.actionSubscribers)
				select {
				case <-payloads:
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
				unsubscribe()
				rounds.Add(1)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	for i := range 100 {
		require.NoError(t, r.UpdateActionPhase(t.Context(), actionID("run", fmt.Sprint("a", i)), succeeded, 1, 0, nil, nil))
	}
	require.Eventually(t, func() bool { finished, _ := g.count(); return finished == 100 }, patience, poll)
	require.Eventually(t, func() bool { return rounds.Load() > 2000 }, patience, poll)
	cancel()
	comers.Wait()
	require.Eventually(t, func() bool { return r.listener.Stats().Backlog.Subscribers == 1 }, eventually, poll)
}

// Three replicas: a write through any of them reaches watchers at all of them.
func TestThreeReplicas(t *testing.T) {
	config := testDbConfig(t)
	var replicas []*actionRepo
	for range 3 {
		replicas = append(replicas, openTestRepo(t, config, WithNotifyConfig(NotifyConfig{CatchUpInterval: far})))
	}
	id := actionID("run", "a1")
	create(t, replicas[0], id)
	var watches []*watch
	for _, r := range replicas {
		watches = append(watches, watchAction(t, r, id))
	}
	for i, r := range replicas {
		require.NoError(t, r.UpdateActionPhase(t.Context(), id, running, uint32(i+1), 0, nil, nil))
		for _, w := range watches {
			for w.next().Attempts != uint32(i+1) {
			}
		}
	}
}
