package impl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/migrations"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// aheadRig is a repository whose watches read ahead, with counts of what they read. It is to be told of everything by the test, or by other replicas.
type aheadRig struct {
	*readingAhead
	t testing.TB

	joint, failed atomic.Int64 // statements that read in common; of these failed
	rows          atomic.Int64 // that they were to read
	all           atomic.Int64 // statements that read actions, those included
}

func newAheadRig(t testing.TB, config database.DbConfig) *aheadRig {
	t.Helper()
	rig := &aheadRig{readingAhead: &readingAhead{openTestRepo(t, config, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))}, t: t}
	fetch := rig.actionRepo.joint.fetch
	rig.actionRepo.joint.fetch = func(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
		rig.rows.Add(int64(len(keys)))
		rig.joint.Add(1)
		rows, err := fetch(ctx, keys)
		if err != nil {
			rig.failed.Add(1)
		}
		return rows, err
	}
	require.NoError(t, rig.db.Callback().Query().After("gorm:query").Register("count", func(tx *gorm.DB) {
		if _, ok := tx.Statement.Dest.(*[]*models.Action); ok {
			rig.all.Add(1)
		}
	}))
	return rig
}

func (rig *aheadRig) watchRun(id *common.RunIdentifier, capacity int) *watch {
	return startWatch(rig.t, rig.actionRepo, rig.runSubscribers, capacity, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		rig.WatchRunUpdates(ctx, id, updates, errs)
	})
}

func (rig *aheadRig) watchAllRuns(capacity int) *watch {
	return startWatch(rig.t, rig.actionRepo, rig.runSubscribers, capacity, rig.WatchAllRunUpdates)
}

func (rig *aheadRig) watchActions(id *common.RunIdentifier, capacity int) *watch {
	return startWatch(rig.t, rig.actionRepo, rig.actionSubscribers, capacity, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		rig.WatchAllActionUpdates(ctx, id, updates, errs)
	})
}

func (rig *aheadRig) watchAction(id *common.ActionIdentifier, capacity int) *watch {
	return startWatch(rig.t, rig.actionRepo, rig.actionSubscribers, capacity, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		rig.WatchActionUpdates(ctx, id, updates, errs)
	})
}

// exec is a write that nobody is told of.
func (rig *aheadRig) exec(statement string, args ...any) {
	rig.t.Helper()
	require.NoError(rig.t, rig.db.Exec(statement, args...).Error)
}

// known counts what the watchers' readers have heard of.
func (rig *aheadRig) known() (payloads int) {
	rig.ahead.mu.RLock()
	defer rig.ahead.mu.RUnlock()
	for _, group := range rig.ahead.groups {
		for ahead := range group {
			ahead.mu.Lock()
			payloads += len(ahead.heard) + len(ahead.reading) + len(ahead.ready) + len(ahead.given)
			ahead.mu.Unlock()
		}
	}
	return payloads
}

// lock keeps the actions from being read until release, which may be called twice.
func (rig *aheadRig) lock() (release func()) {
	rig.t.Helper()
	holder := rig.db.Begin()
	require.NoError(rig.t, holder.Error)
	require.NoError(rig.t, holder.Exec("LOCK TABLE actions IN ACCESS EXCLUSIVE MODE").Error)
	release = sync.OnceFunc(func() { require.NoError(rig.t, holder.Rollback().Error) })
	rig.t.Cleanup(release)
	return release
}

// waiters is the number of backends that wait for the lock.
func (rig *aheadRig) waiters() (n int) {
	rig.t.Helper()
	require.NoError(rig.t, rig.db.Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n).Error)
	return n
}

func (rig *aheadRig) eventually(condition func() bool, what string) {
	rig.t.Helper()
	require.Eventually(rig.t, condition, eventually, poll, what)
}

// nextOf reads updates until one is of that action.
func (w *watch) nextOf(name string) *models.Action {
	w.t.Helper()
	for {
		if update := w.next(); update.Name == name {
			return update
		}
	}
}

func TestABurstIsShownWithFewStatements(t *testing.T) {
	const n = 500
	rig := newAheadRig(t, testDbConfig(t))
	addActions(t, rig.actionRepo, "run", n)
	w := rig.watchActions(runID("run"), 0)
	rig.exec("UPDATE actions SET phase = ?", succeeded)
	for i := range n {
		rig.notifyActionUpdate(t.Context(), actionID("run", fmt.Sprint("a", i)))
	}
	// It stands at its first update, which nobody takes, until all have been heard of.
	rig.eventually(func() bool { return rig.known() == n }, "the burst is not heard")
	shown := map[string]*models.Action{} // held, as by a client that takes its time
	for len(shown) < n {
		update := w.next()
		require.EqualValues(t, succeeded, update.Phase)
		shown[update.Name] = update
	}
	assert.LessOrEqual(t, rig.all.Load(), int64(n/10))
	assert.Equal(t, rig.joint.Load(), rig.all.Load(), "none by itself")
}

// A watcher that comes into the middle of a burst is told what came before it, and reads that ahead too.
func TestAWatcherThatComesLateReadsAhead(t *testing.T) {
	const n = 500
	rig := newAheadRig(t, testDbConfig(t))
	addActions(t, rig.actionRepo, "run", n)
	addActions(t, rig.actionRepo, "other", n)
	for i := range n {
		rig.notifyActionUpdate(t.Context(), actionID("run", fmt.Sprint("a", i)))
		rig.notifyActionUpdate(t.Context(), actionID("other", fmt.Sprint("a", i)))
	}
	rig.eventually(func() bool { return rig.listener.Stats().Backlog.HandedOn >= 2*n }, "the burst is not heard")
	w := rig.watchActions(runID("run"), 0)
	shown := map[string]*models.Action{} // held, as by a client that takes its time
	for len(shown) < n {
		update := w.next()
		require.Equal(t, "run", update.RunName)
		shown[update.Name] = update
	}
	assert.LessOrEqual(t, rig.all.Load(), int64(n/10))
	assert.LessOrEqual(t, rig.rows.Load(), int64(n+n/2), "and not the other run's")
}

// What all watchers together take from the RPCs is two connections, however many they are.
func TestThreeHundredStreamsReadOverTwoConnections(t *testing.T) {
	const streams = 300
	rig := newAheadRig(t, testDbConfig(t))
	addActions(t, rig.actionRepo, "run", streams)
	var watches []*watch
	for i := range streams {
		watches = append(watches, rig.watchAction(actionID("run", fmt.Sprint("a", i)), 1))
	}
	release := rig.lock()
	for i := range streams {
		rig.notifyActionUpdate(t.Context(), actionID("run", fmt.Sprint("a", i)))
	}
	waiting := func() int {
		joint := rig.actionRepo.joint
		joint.mu.Lock()
		defer joint.mu.Unlock()
		return len(joint.waiting)
	}
	// All of them are in a statement that is under way, or wait for the next.
	rig.eventually(func() bool { return waiting()+int(rig.rows.Load()) == streams }, "they do not read")
	time.Sleep(100 * time.Millisecond) // for one that does it otherwise to show
	assert.Equal(t, jointStatements, rig.waiters())
	assert.LessOrEqual(t, rig.sqlDB.Stats().InUse, jointStatements+1, "and the one with the lock")
	release()
	for i, w := range watches {
		assert.Equal(t, fmt.Sprint("a", i), w.next().Name)
	}
	assert.Less(t, rig.all.Load(), int64(streams/10))
}

// Each kind of watch, some of each, on the same few rows.
func (rig *aheadRig) manyWatches() (watches []*watch) {
	for range 5 {
		for run := range 3 {
			id := runID(fmt.Sprint("run", run))
			watches = append(watches, rig.watchRun(id, 100), rig.watchActions(id, 100), rig.watchAction(actionID(id.GetName(), "a0"), 100))
		}
		watches = append(watches, rig.watchAllRuns(100))
	}
	return watches
}

func (rig *aheadRig) notifyRuns() {
	for run := range 3 {
		rig.notifyRunUpdate(rig.t.Context(), runID(fmt.Sprint("run", run)))
		rig.notifyActionUpdate(rig.t.Context(), actionID(fmt.Sprint("run", run), "a0"))
	}
}

// requireShown waits until every watch has shown the phase, and sees that none has ended.
func requireShown(t *testing.T, watches []*watch, phase common.ActionPhase) {
	t.Helper()
	for _, w := range watches {
		w.nextPhase("a0", int32(phase))
		select {
		case <-w.ended:
			require.Fail(t, "a watch has ended")
		default:
		}
	}
}

func TestAKilledBackendEndsNoStream(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	for run := range 3 {
		addActions(t, rig.actionRepo, fmt.Sprint("run", run), 2)
	}
	watches := rig.manyWatches()
	logged(t)
	rig.exec("UPDATE actions SET phase = ?", succeeded)
	release := rig.lock()
	rig.notifyRuns()
	rig.eventually(func() bool {
		rig.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM unn' || 'est%'`)
		return rig.failed.Load() > jointStatements // the second try of some, too
	}, "nothing was killed")
	release()
	requireShown(t, watches, succeeded)
}

// Whatever keeps the rows from being read in common, each watcher reads its own.
func TestWatchersHelpThemselves(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	for run := range 3 {
		addActions(t, rig.actionRepo, fmt.Sprint("run", run), 2)
	}
	logged(t)
	rig.actionRepo.joint.fetch = func(context.Context, []rowKey) (map[rowKey]*models.Action, error) {
		rig.failed.Add(1)
		return nil, errors.New("not in common")
	}
	watches := rig.manyWatches()
	for _, phase := range []common.ActionPhase{running, succeeded} {
		rig.exec("UPDATE actions SET phase = ?", phase)
		rig.notifyRuns()
		requireShown(t, watches, phase)
	}
	assert.Positive(t, rig.failed.Load())
}

// A migration changes the type of a column under the statements that every connection has prepared.
func TestWatchesGoOnAfterAMigration(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	for run := range 3 {
		addActions(t, rig.actionRepo, fmt.Sprint("run", run), 2)
	}
	logged(t)
	watches := rig.manyWatches()
	for i, change := range []string{"ALTER TABLE actions ALTER task_type TYPE VARCHAR(1000)", "ALTER TABLE actions ADD COLUMN later INTEGER", "ALTER TABLE actions DROP COLUMN later"} {
		rig.exec(change)
		phase := []common.ActionPhase{running, succeeded, common.ActionPhase_ACTION_PHASE_FAILED}[i]
		rig.exec("UPDATE actions SET phase = ?", phase)
		rig.notifyRuns()
		requireShown(t, watches, phase)
	}
	rig.eventually(func() bool { // and in common again
		before, failed := rig.joint.Load(), rig.failed.Load()
		all := rig.all.Load()
		rig.notifyRuns()
		for _, w := range watches {
			w.nextOf("a0")
		}
		return rig.failed.Load() == failed && rig.joint.Load()-before == rig.all.Load()-all
	}, "reading in common still fails")
}

// Each gets each update, whoever else watches the row, and whoever has written it.
func TestTwoWatchersOfARowEachGetIt(t *testing.T) {
	config := testDbConfig(t)
	here, there := newAheadRig(t, config), openTestRepo(t, config)
	id := actionID("run", rootActionName)
	create(t, there, id)
	watches := []*watch{
		here.watchAction(id, 0), here.watchAction(id, 0), here.watchActions(runID("run"), 0), here.watchActions(runID("run"), 0),
		here.watchRun(runID("run"), 0), here.watchRun(runID("run"), 0), here.watchAllRuns(0), here.watchAllRuns(0),
	}
	for attempt := uint32(1); attempt <= 50; attempt++ {
		require.NoError(t, there.UpdateActionPhase(t.Context(), id, running, attempt, 0, nil, nil))
		for _, w := range watches {
			for w.next().Attempts != attempt {
			}
		}
	}
}

// Writers at another replica, watchers that are quick and slow, and a listener that is killed: no watcher is shown an older row after a newer one, and the
// last that each is shown of an action is the last that was written.
func TestTheLastRowShownIsTheLastWritten(t *testing.T) {
	const actions, writers, updates = 40, 8, 25
	quietLog(t)
	config := testDbConfig(t)
	here, there := newAheadRig(t, config), openTestRepo(t, config, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))
	addActions(t, there, "run", actions)
	ctx, cancel := context.WithCancel(t.Context())
	var showing sync.WaitGroup
	defer func() {
		cancel()
		showing.Wait()
	}()

	var screens []*sync.Map // action → attempts
	show := func(w *watch, pause time.Duration) {
		screen := &sync.Map{}
		screens = append(screens, screen)
		showing.Go(func() {
			for {
				select {
				case update := <-w.updates:
					before, _ := screen.Swap(update.Name, update.Attempts)
					if before, shown := before.(uint32); shown {
						assert.GreaterOrEqual(t, update.Attempts, before, update.Name)
					}
					time.Sleep(pause)
				case err := <-w.errs:
					assert.NoError(t, err)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for _, pause := range []time.Duration{0, 0, time.Millisecond, 5 * time.Millisecond} {
		show(here.watchActions(runID("run"), 0), pause)
	}
	complete := len(screens)
	show(here.watchAction(actionID("run", "a0"), 0), 0)
	show(here.watchRun(runID("run"), 0), 0)
	show(here.watchAllRuns(0), time.Millisecond)

	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for attempt := uint32(1); attempt <= updates; attempt++ {
				for i := writer; i < actions; i += writers {
					assert.NoError(t, there.UpdateActionPhase(context.Background(), actionID("run", fmt.Sprint("a", i)), running, attempt, 0, nil, nil))
				}
			}
		})
	}
	for range 3 {
		killBackends(t, here.actionRepo, "notify-listener")
		time.Sleep(20 * time.Millisecond) // a spell
	}
	writing.Wait()
	for n, screen := range screens {
		for i := range actions {
			if n >= complete && i > 0 {
				break
			}
			here.eventually(func() bool {
				attempts, _ := screen.Load(fmt.Sprint("a", i))
				return attempts == uint32(updates)
			}, fmt.Sprintf("watcher %d never shows the last of a%d", n, i))
		}
	}
}

// Writers, arrivals and watchers side by side, on PostgreSQL, with statements whose answers are late.
func TestAWatchersRowIsNeverOlderThanTheLastArrival(t *testing.T) {
	const most = 8
	rig := newAheadRig(t, testDbConfig(t))
	addActions(t, rig.actionRepo, "run", most)
	fetch := rig.actionRepo.joint.fetch
	rig.actionRepo.joint.fetch = func(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
		rows, err := fetch(ctx, keys)
		time.Sleep(rand.N(time.Millisecond))
		return rows, err
	}
	group := aheadGroup{actionUpdatesChannel, runKey(runID("run"))}
	var written, arrived [most]atomic.Uint32
	var change [most]sync.Mutex
	ids := make([]*common.ActionIdentifier, most)
	for i := range ids {
		ids[i] = actionID("run", fmt.Sprint("a", i))
	}

	type step struct{ action, kind int }
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{rapid.IntRange(0, rapid.SampledFrom([]int{0, 1, most - 1}).Draw(t, "of")).Draw(t, "action"), rapid.IntRange(0, 2).Draw(t, "kind")}
		}), 1, 15)
		var working sync.WaitGroup
		for range rapid.IntRange(1, 2).Draw(t, "writers") {
			changes := steps.Draw(t, "changes")
			working.Go(func() {
				for _, step := range changes {
					change[step.action].Lock()
					if step.kind != 0 {
						next := written[step.action].Load() + 1
						assert.NoError(t, rig.db.Exec("UPDATE actions SET attempts = ? WHERE name = ?", next, ids[step.action].GetName()).Error)
						written[step.action].Store(next)
					}
					if step.kind != 1 {
						rig.ahead.note(actionUpdatesChannel, actionKey(ids[step.action]))
						arrived[step.action].Store(written[step.action].Load())
					}
					change[step.action].Unlock()
				}
			})
		}
		for range rapid.IntRange(1, 3).Draw(t, "watchers") {
			asks := steps.Draw(t, "asks")
			ctx, leave := rig.watching(context.Background(), group)
			working.Go(func() {
				defer leave()
				for _, step := range asks {
					need := arrived[step.action].Load()
					row, err := rig.GetAction(ctx, ids[step.action])
					if assert.NoError(t, err) {
						assert.Equal(t, ids[step.action].GetName(), row.Name)
						assert.GreaterOrEqual(t, row.Attempts, need)
					}
				}
			})
		}
		working.Wait()
	})
	assert.Empty(t, rig.ahead.groups, "who has left is forgotten")
}

// A slash in a name makes two rows of one payload: neither is shown for the other.
func TestNamesWithSlashes(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	run := func(project, domain, name string) *common.RunIdentifier {
		return &common.RunIdentifier{Project: project, Domain: domain, Name: name}
	}
	action := func(run *common.RunIdentifier, name string) *common.ActionIdentifier {
		return &common.ActionIdentifier{Run: run, Name: name}
	}
	// All of the first have the payload p/d/r/x/a0, each in another way.
	same := []*common.ActionIdentifier{
		action(run("p", "d", "r"), "x/a0"), action(run("p", "d", "r/x"), "a0"), action(run("p", "d/r", "x"), "a0"), action(run("p/d", "r", "x"), "a0"),
	}
	for i, id := range same {
		create(t, rig.actionRepo, id, func(row *models.Action) { row.Attempts = uint32(i + 1) })
	}
	var watches []*watch
	for _, id := range same {
		watches = append(watches, rig.watchAction(id, 10))
	}
	for _, id := range same[1:] {
		watches = append(watches, rig.watchActions(id.GetRun(), 10))
	}
	for _, id := range same[1:] {
		watches = append(watches, rig.watchRun(id.GetRun(), 10))
	}
	watchOfRun := rig.watchActions(same[0].GetRun(), 10)
	rig.notifyActionUpdate(t.Context(), same[0])
	rig.notifyRunUpdate(t.Context(), same[1].GetRun())
	for i, w := range watches {
		want := i
		if i >= len(same) {
			want = (i-len(same))%(len(same)-1) + 1
		}
		update := w.next()
		assert.EqualValues(t, want+1, update.Attempts)
		assert.Equal(t, actionKey(same[want]), strings.Join([]string{update.Project, update.Domain, update.RunName, update.Name}, "/"))
	}
	assert.EqualValues(t, 1, watchOfRun.nextOf("x/a0").Attempts)
}

// A run is its root, whatever that is called, and whatever else is called as roots are.
func TestARunWhoseRootHasAnotherName(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	create(t, rig.actionRepo, actionID("run", "other"), func(row *models.Action) { row.ParentActionName.Valid = false })
	create(t, rig.actionRepo, actionID("run", rootActionName), func(row *models.Action) {
		row.ParentActionName.String, row.ParentActionName.Valid = "other", true
	})
	one, all := rig.watchRun(runID("run"), 10), rig.watchAllRuns(10)
	for range 3 {
		rig.notifyRunUpdate(t.Context(), runID("run"))
		assert.Equal(t, "other", one.next().Name)
		assert.Equal(t, "other", all.next().Name)
	}
}

// A large row is shown as any other, and costs its watcher a second round trip once at most.
func TestALargeRowIsShown(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	id := actionID("run", rootActionName)
	large := strings.Repeat("x", 100*jointRowBytes)
	create(t, rig.actionRepo, id, func(row *models.Action) { row.ActionSpec = []byte(large) })
	create(t, rig.actionRepo, actionID("run", "a1"))
	one, all := rig.watchAction(id, 10), rig.watchActions(runID("run"), 10)
	for range 5 {
		rig.notifyActionUpdate(t.Context(), id)
		assert.Len(t, one.next().ActionSpec, len(large))
		assert.Len(t, all.nextOf(rootActionName).ActionSpec, len(large))
	}
	assert.LessOrEqual(t, rig.joint.Load(), int64(2+1), "of each, and of a1")
	rig.notifyActionUpdate(t.Context(), actionID("run", "a1"))
	assert.Equal(t, "a1", all.nextOf("a1").Name)
}

func TestWatchesOfWhatIsNotThere(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	addActions(t, rig.actionRepo, "run", 1)
	logged(t)
	actions, action := rig.watchActions(runID("run"), 10), rig.watchAction(actionID("run", "a7"), 10)
	run, runs := rig.watchRun(runID("nowhere"), 10), rig.watchAllRuns(10)
	rig.notifyActionUpdate(t.Context(), actionID("run", "a7"))
	rig.notifyRunUpdate(t.Context(), runID("nowhere"))
	require.ErrorContains(t, <-run.errs, "run not found: proj/dev/nowhere")
	<-run.ended

	create(t, rig.actionRepo, actionID("run", "a7"))
	rig.notifyActionUpdate(t.Context(), actionID("run", "a7"))
	rig.notifyRunUpdate(t.Context(), runID("run"))
	assert.Equal(t, "a7", actions.next().Name)
	assert.Equal(t, "a7", action.next().Name)
	assert.Equal(t, "run", runs.next().RunName)
}

// Anybody can notify, with any text. What names no row, or cannot be in a statement, harms nobody's reading.
func TestPayloadsThatNameNothing(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	addActions(t, rig.actionRepo, "run", 2)
	log := logged(t)
	actions, runs := rig.watchActions(runID("run"), 10), rig.watchAllRuns(10)
	release := rig.lock() // so that what is read stays so
	for _, junk := range []string{"", "/", "proj", "proj/dev", "///", "proj/dev/run", "proj/dev/run/", "proj/dev/run/a0/b/c", "proj/dev/a?b/$1", strings.Repeat("/", 4000)} {
		rig.announce(t.Context(), actionUpdatesChannel, junk)
		rig.announce(t.Context(), runUpdatesChannel, junk)
	}
	for _, refused := range []string{"proj/dev/run/\x00", "proj/dev/run/\xff", "proj/dev/\xff\xfe/a", "proj/dev/\x00", "proj/dev/\xff"} {
		rig.ahead.note(actionUpdatesChannel, refused)
		rig.ahead.note(runUpdatesChannel, refused)
	}
	rig.eventually(func() bool { return rig.listener.Stats().Backlog.Arrived >= 20 }, "they are not heard")
	assert.Equal(t, 2+1, rig.known(), "proj/dev/run/ and proj/dev/run/a0/b/c as actions, proj/dev/run as a run")
	release()
	rig.listener.TellAgain(runUpdatesChannel, "proj/dev/\xff")
	rig.eventually(func() bool { return strings.Contains(log(), `\"proj/dev/\\xff\" that cannot be read`) }, "it is not asked for")
	rig.notifyRunUpdate(t.Context(), runID("run"))
	rig.notifyActionUpdate(t.Context(), actionID("run", "a1"))
	assert.Equal(t, "run", runs.next().RunName)
	assert.Equal(t, "a1", actions.nextOf("a1").Name)
	assert.Zero(t, rig.failed.Load())
}

// Close ends what is under way; who watches on, reads alone.
func TestCloseWhileWatchersRead(t *testing.T) {
	rig := newAheadRig(t, testDbConfig(t))
	for run := range 3 {
		addActions(t, rig.actionRepo, fmt.Sprint("run", run), 2)
	}
	logged(t)
	watches := rig.manyWatches()
	rig.exec("UPDATE actions SET phase = ?", succeeded)
	release := rig.lock()
	rig.notifyRuns()
	rig.eventually(func() bool {
		stats := rig.listener.Stats().Backlog
		return stats.HandedOn >= 6 && stats.Waiting+stats.Behind == 0 && rig.joint.Load() == jointStatements
	}, "they have not all been told, or do not read")
	begin := time.Now()
	require.NoError(t, rig.Close(t.Context()))
	assert.Less(t, time.Since(begin), jointTimeout)
	assert.EqualValues(t, rig.joint.Load(), rig.failed.Load())
	release()
	requireShown(t, watches, succeeded)
}

func TestCloseWhileWatchersReadFromAServerThatIsFrozen(t *testing.T) {
	server := dbtest.StartServer(t)
	migrated(t, server.Config())
	config := server.Config()
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	r, err := newActionRepo(db, config)
	require.NoError(t, err)
	awaitReady(t, r)
	logged(t)
	rig := &aheadRig{readingAhead: &readingAhead{r}, t: t}
	addActions(t, r, "run", 2)
	w := rig.watchActions(runID("run"), 0)
	release := rig.lock()
	r.notifyActionUpdate(t.Context(), actionID("run", "a1"))
	rig.eventually(func() bool { return rig.waiters() == 1 }, "it does not read")

	server.Pause()
	resume := sync.OnceFunc(server.Resume)
	t.Cleanup(resume)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_ = r.Close(ctx) // how much was left to do is not the question
	assert.Less(t, time.Since(begin), 5*time.Second)
	resume()
	w.end()
	release()
	require.NoError(t, r.listener.Close(t.Context()))
	<-r.fanoutStopped
}
