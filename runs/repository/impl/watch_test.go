package impl

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// watch is one of the four Watch methods, running.
type watch struct {
	t       testing.TB
	updates chan *models.Action
	errs    chan error
	stop    func()
	ended   chan struct{}
}

// startWatch returns once the watch has registered among subscribers.
func startWatch(t testing.TB, r *actionRepo, subscribers map[chan string]bool, capacity int,
	method func(ctx context.Context, updates chan<- *models.Action, errs chan<- error),
) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{
		t: t, stop: cancel,
		updates: make(chan *models.Action, capacity), errs: make(chan error, 1), ended: make(chan struct{}),
	}
	before := subscriberCount(r, subscribers)
	go func() {
		defer close(w.ended)
		method(ctx, w.updates, w.errs)
	}()
	require.Eventually(t, func() bool { return subscriberCount(r, subscribers) == before+1 }, eventually, poll)
	t.Cleanup(w.end)
	return w
}

func subscriberCount(r *actionRepo, subscribers map[chan string]bool) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(subscribers)
}

func (w *watch) end() {
	w.stop()
	select {
	case <-w.ended:
	case <-time.After(eventually):
		w.t.Error("watch has not ended")
	}
}

func (w *watch) next() *models.Action {
	w.t.Helper()
	select {
	case update := <-w.updates:
		return update
	case err := <-w.errs:
		require.NoError(w.t, err)
	case <-time.After(eventually):
		require.Fail(w.t, "no update came")
	}
	return nil
}

func watchRun(t testing.TB, r *actionRepo, id *common.RunIdentifier) *watch {
	return startWatch(t, r, r.runSubscribers, 0, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		r.WatchRunUpdates(ctx, id, updates, errs)
	})
}

func watchAllRuns(t testing.TB, r *actionRepo) *watch {
	return startWatch(t, r, r.runSubscribers, 0, r.WatchAllRunUpdates)
}

func watchAllActions(t testing.TB, r *actionRepo, id *common.RunIdentifier, capacity int) *watch {
	return startWatch(t, r, r.actionSubscribers, capacity, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		r.WatchAllActionUpdates(ctx, id, updates, errs)
	})
}

func watchAction(t testing.TB, r *actionRepo, id *common.ActionIdentifier) *watch {
	return startWatch(t, r, r.actionSubscribers, 0, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		r.WatchActionUpdates(ctx, id, updates, errs)
	})
}

// offline is a repository whose listener is the test: what it is given on the returned channel is what was heard. Nothing it writes is announced.
func offline(t testing.TB) (r *actionRepo, heard chan *pgnotify.Notification) {
	t.Helper()
	r = newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	heard = make(chan *pgnotify.Notification)
	fed := &actionRepo{
		db: r.db, sqlDB: r.sqlDB, quiet: quietInterval, listener: &pgnotify.Listener{Notify: heard},
		runSubscribers: map[chan string]bool{}, actionSubscribers: map[chan string]bool{}, done: make(chan struct{}),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fed.processNotifications()
	}()
	t.Cleanup(func() {
		close(fed.done)
		<-ended
	})
	return fed, heard
}

func TestWatchersSeeChangesOfOtherReplicas(t *testing.T) {
	config := testDbConfig(t)
	here, there := openTestRepo(t, config), openTestRepo(t, config)
	root, child := actionID("run", rootActionName), actionID("run", "a1")

	oneRun, allRuns := watchRun(t, here, runID("run")), watchAllRuns(t, here)
	allActions, oneAction := watchAllActions(t, here, runID("run"), 0), watchAction(t, here, child)

	create(t, there, root)
	assert.Equal(t, rootActionName, oneRun.next().Name)
	assert.Equal(t, "run", allRuns.next().RunName)
	assert.Equal(t, rootActionName, allActions.next().Name)

	create(t, there, child)
	assert.Equal(t, "a1", allActions.next().Name)
	assert.Equal(t, "a1", oneAction.next().Name)

	updatePhase(t, there, child, succeeded)
	assert.EqualValues(t, succeeded, allActions.next().Phase)
	assert.EqualValues(t, succeeded, oneAction.next().Phase)

	require.NoError(t, there.InsertEvents(t.Context(), []*models.ActionEvent{newEvent(t, child, 1, succeeded, 0)}))
	assert.Equal(t, "a1", oneAction.next().Name)
	assert.Equal(t, "a1", allActions.next().Name)

	// Another run with this one's name as the beginning of its own.
	create(t, there, actionID("run2", rootActionName))
	assert.Equal(t, "run2", allRuns.next().RunName)
	updatePhase(t, there, root, running)
	assert.Equal(t, "run", oneRun.next().RunName)
	assert.Equal(t, "run", allActions.next().RunName)
}

func TestWatchRunEndsOnAFailedRead(t *testing.T) {
	r, heard := offline(t)
	w := watchRun(t, r, runID("gone"))
	heard <- &pgnotify.Notification{Channel: runUpdatesChannel, Extra: "proj/dev/other"}
	heard <- &pgnotify.Notification{Channel: actionUpdatesChannel, Extra: "proj/dev/gone"}
	heard <- &pgnotify.Notification{Channel: runUpdatesChannel, Extra: "proj/dev/gone"}
	require.ErrorContains(t, <-w.errs, "run not found")
	<-w.ended
	assert.Zero(t, subscriberCount(r, r.runSubscribers))
}

func TestWatchAllRunsSkipsWhatItCannotRead(t *testing.T) {
	r, heard := offline(t)
	log := logged(t)
	create(t, r, actionID("run", rootActionName))
	w := watchAllRuns(t, r)
	for _, payload := range []string{"", "a/b", "a/b/c/d", "proj/dev/gone", "proj/dev/run"} {
		heard <- &pgnotify.Notification{Channel: runUpdatesChannel, Extra: payload}
	}
	assert.Equal(t, "run", w.next().RunName)
	assert.Contains(t, log(), `names no run: \"a/b/c/d\"`)
	assert.Contains(t, log(), `level=DEBUG msg="skipping an update: run not found: proj/dev/gone"`)
	assert.Empty(t, w.errs)
}

func TestActionWatchesEndOnAFailedReadButNotForAMissingAction(t *testing.T) {
	r, heard := offline(t)
	create(t, r, actionID("run", "a1"))
	one, all := watchAction(t, r, actionID("run", "a2")), watchAllActions(t, r, runID("run"), 0)
	heard <- &pgnotify.Notification{Channel: actionUpdatesChannel, Extra: "proj/dev/run/a2"} // not there
	heard <- &pgnotify.Notification{Channel: actionUpdatesChannel, Extra: "proj/dev/run/a1"}
	assert.Equal(t, "a1", all.next().Name)

	require.NoError(t, r.db.Exec("ALTER TABLE actions RENAME TO actions_elsewhere").Error)
	heard <- &pgnotify.Notification{Channel: actionUpdatesChannel, Extra: "proj/dev/run/a2"}
	require.ErrorContains(t, <-one.errs, "actions")
	require.ErrorContains(t, <-all.errs, "actions")
	<-one.ended
	<-all.ended
	assert.Zero(t, subscriberCount(r, r.actionSubscribers))
}

// What queues up while a watch is busy comes as one read per action, in the order in which the actions were first heard of.
func TestWatchAllActionsFoldsWhatHasQueuedUp(t *testing.T) {
	r, heard := offline(t)
	for _, name := range []string{"a1", "a2", "a3"} {
		create(t, r, actionID("run", name))
	}
	w := watchAllActions(t, r, runID("run"), 0)
	hear := func(payload string) { heard <- &pgnotify.Notification{Channel: actionUpdatesChannel, Extra: payload} }
	release := whileReading(t, r, func() { hear("proj/dev/run/a1") })
	for range 10 {
		hear("proj/dev/run/a3")
		hear("proj/dev/run2/a9")
		hear("proj/dev/run/a2")
	}
	heard <- nil // what came before is queued
	assert.Equal(t, 30, queuedPayloads(r))
	release()
	var names []string
	for range 3 {
		names = append(names, w.next().Name)
	}
	assert.Equal(t, []string{"a1", "a3", "a2"}, names)

	hear("proj/dev/run/a1")
	assert.Equal(t, "a1", w.next().Name, "nothing of the thirty is left")
}

func TestWatchActionFoldsWhatHasQueuedUp(t *testing.T) {
	r, heard := offline(t)
	create(t, r, actionID("run", "a1"))
	w := watchAction(t, r, actionID("run", "a1"))
	hear := func(payload string) { heard <- &pgnotify.Notification{Channel: actionUpdatesChannel, Extra: payload} }
	release := whileReading(t, r, func() { hear("proj/dev/run/a1") })
	for range 10 {
		hear("proj/dev/run/a1")
		hear("proj/dev/run/a2")
	}
	heard <- nil
	assert.Equal(t, 20, queuedPayloads(r))
	release()
	w.next()
	w.next() // the ten, as one

	updatePhase(t, r, actionID("run", "a1"), succeeded)
	hear("proj/dev/run/a1")
	assert.EqualValues(t, succeeded, w.next().Phase, "nothing of the twenty is left")
}

// whileReading keeps table actions from being read, and returns when what start begins waits for it; release lets it go on.
func whileReading(t testing.TB, r *actionRepo, start func()) (release func()) {
	t.Helper()
	holder := r.db.WithContext(t.Context()).Begin()
	require.NoError(t, holder.Error)
	require.NoError(t, holder.Exec("LOCK TABLE actions IN ACCESS EXCLUSIVE MODE").Error)
	start()
	awaitLockWaiter(t, r)
	return func() { require.NoError(t, holder.Rollback().Error) }
}

// queuedPayloads is how many payloads wait for action watchers.
func queuedPayloads(r *actionRepo) (n int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for subscriber := range r.actionSubscribers {
		n += len(subscriber)
	}
	return n
}

func TestAFullSubscriberIsSkippedWithAWarningAndOthersAreNot(t *testing.T) {
	r, heard := offline(t)
	log := logged(t)
	full, unsubscribe := r.subscribe(r.actionSubscribers)
	defer unsubscribe()
	other, unsubscribeOther := r.subscribe(r.actionSubscribers)
	defer unsubscribeOther()

	for i := range subscriberCapacity + 3 {
		heard <- &pgnotify.Notification{Channel: actionUpdatesChannel, Extra: fmt.Sprintf("proj/dev/run/a%d", i)}
		select {
		case got := <-other:
			assert.Equal(t, fmt.Sprintf("proj/dev/run/a%d", i), got)
		case <-time.After(eventually):
			require.Fail(t, "a full subscriber holds up another")
		}
	}
	heard <- nil // skipped, and proof that what came before is through
	assert.Len(t, full, subscriberCapacity)
	assert.Contains(t, log(), `\"proj/dev/run/a100\" is kept for one`)
	assert.NotContains(t, log(), `a102`, "one line stands for all")
	assert.NotContains(t, log(), "a99\"")
	assert.Equal(t, "proj/dev/run/a0", <-full)
}

func TestNotificationsOfOtherChannelsAreNobodys(t *testing.T) {
	r, heard := offline(t)
	runs, unsubscribe := r.subscribe(r.runSubscribers)
	defer unsubscribe()
	actions, unsubscribeActions := r.subscribe(r.actionSubscribers)
	defer unsubscribeActions()
	heard <- &pgnotify.Notification{Channel: "elsewhere", Extra: "x"}
	heard <- nil
	assert.Empty(t, runs)
	assert.Empty(t, actions)
}

func TestProcessNotificationsReturnsWhenThePingFails(t *testing.T) {
	l := silentListener(t)
	log := logged(t)
	r := &actionRepo{quiet: time.Millisecond, listener: l, done: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.processNotifications()
	}()
	require.NoError(t, l.Close(t.Context()))
	select {
	case <-ended:
	case <-time.After(eventually):
		t.Fatal("a failed ping did not end it")
	}
	assert.Contains(t, log(), "notify listener does not answer")
	assert.ErrorIs(t, l.Ping(), pgnotify.ErrListenerClosed)
}

func TestProcessNotificationsGoesOnWhenThePingSucceeds(t *testing.T) {
	r := newTestRepo(t)
	second := &actionRepo{
		db: r.db, quiet: time.Millisecond, listener: r.listener, done: make(chan struct{}),
		runSubscribers: map[chan string]bool{}, actionSubscribers: map[chan string]bool{},
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		second.processNotifications()
	}()
	select {
	case <-ended:
		t.Fatal("it ended")
	case <-time.After(200 * time.Millisecond): // many quiet intervals
	}
	close(second.done)
	<-ended
}

// Watches come and go while changes flow; run with -race. None is sent to after it has gone, and each that stays sees the end of its action.
func TestWatchersComeAndGoUnderLoad(t *testing.T) {
	r := newTestRepo(t)
	const actions = 20
	create(t, r, actionID("run", rootActionName))
	var stay []*watch
	for i := range actions {
		id := actionID("run", fmt.Sprintf("a%d", i+1))
		create(t, r, id)
		stay = append(stay, startWatch(t, r, r.actionSubscribers, 1000, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
			r.WatchActionUpdates(ctx, id, updates, errs)
		}))
	}

	ctx, cancel := context.WithCancel(t.Context())
	var comers, writers sync.WaitGroup
	for range 50 {
		comers.Go(func() {
			for ctx.Err() == nil {
				short, cancel := context.WithTimeout(ctx, time.Millisecond)
				r.WatchAllActionUpdates(short, runID("run"), make(chan *models.Action, 1), make(chan error, 1))
				r.WatchAllRunUpdates(short, make(chan *models.Run, 1), nil)
				cancel()
			}
		})
	}
	for i := range actions {
		id := actionID("run", fmt.Sprintf("a%d", i+1))
		writers.Go(func() {
			for attempt := range 20 {
				assert.NoError(t, r.UpdateActionPhase(t.Context(), id, running, uint32(attempt), core.CatalogCacheStatus_CACHE_MISS, nil, nil))
			}
			assert.NoError(t, r.UpdateActionPhase(t.Context(), id, succeeded, 20, core.CatalogCacheStatus_CACHE_MISS, nil, nil))
		})
	}
	writers.Wait()
	for _, w := range stay {
		for w.next().Phase != int32(succeeded) {
		}
	}
	cancel()
	comers.Wait()
	assert.Zero(t, subscriberCount(r, r.runSubscribers))
	assert.Equal(t, actions, subscriberCount(r, r.actionSubscribers))
}
