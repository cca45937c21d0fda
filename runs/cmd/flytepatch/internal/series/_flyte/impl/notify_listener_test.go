package impl

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	addActionsSQL = `INSERT INTO actions (project, domain, run_name, name, parent_action_name, updated_at)
		SELECT 'flytesnacks', 'development', 'r1', name, CASE WHEN name <> 'a0' THEN 'a0' END, $2
		FROM (SELECT 'a0' AS name UNION ALL SELECT 'n' || i FROM generate_series(0, $1::int - 1) AS i) AS names`
	finishActionsSQL = `UPDATE actions SET phase = 5, updated_at = now() WHERE name <> 'a0'`
)

// watchedRun is a watcher of all actions of the run: it keeps the last phase that it was sent of each.
type watchedRun struct {
	updates chan *models.Action
	errs    chan error
	phases  map[string]int32
}

func watchRun(t *testing.T, repo interfaces.ActionRepo) *watchedRun {
	t.Helper()
	w := &watchedRun{updates: make(chan *models.Action), errs: make(chan error, 1), phases: map[string]int32{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		repo.WatchAllActionUpdates(ctx, notifyRun, w.updates, w.errs)
	}()
	t.Cleanup(func() {
		cancel()
		for { // it may be sending
			select {
			case <-w.updates:
			case <-ended:
				return
			}
		}
	})
	return w
}

// read takes updates until n actions are known to have finished.
func (w *watchedRun) read(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(notifyPatience)
	for finished := 0; finished < n; {
		select {
		case action := <-w.updates:
			if action.Phase == 5 && w.phases[action.Name] != 5 {
				finished++
			}
			w.phases[action.Name] = action.Phase
		case err := <-w.errs:
			require.NoError(t, err)
		case <-deadline:
			t.Fatalf("%d of %d finished actions were seen", finished, n)
		}
	}
}

// startRepo makes a repository on a database of its own, with n actions of one run.
func startRepo(t *testing.T, n int) (repo *actionRepo, kill func(role string), exec func(statement string, args ...any)) {
	t.Helper()
	db, config := notifyDatabase(t)
	exec = func(statement string, args ...any) {
		t.Helper()
		_, err := db.Exec(statement, args...)
		require.NoError(t, err)
	}
	exec(addActionsSQL, n, time.Now().Add(-time.Hour))
	made, err := NewActionRepo(db, config)
	require.NoError(t, err)
	repo = made.(*actionRepo)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyPatience)
		defer cancel()
		_, err := repo.notifyPump.Close(ctx)
		assert.NoError(t, err)
		assert.NoError(t, repo.listener.Close(ctx))
	})
	require.Eventually(t, func() bool { return repo.listener.Ready() == nil }, notifyPatience, 10*time.Millisecond)
	return repo, func(role string) { t.Helper(); killBackends(t, db, role) }, exec
}

// A burst of many times what a subscriber's channel holds, to a watcher that reads nothing meanwhile.
func TestWatchAllActionUpdates_ABurstIsSeenWhole(t *testing.T) {
	const n = 2000
	repo, _, exec := startRepo(t, n)
	watched := watchRun(t, repo)
	exec(finishActionsSQL)
	for i := range n {
		repo.notifyActionUpdate(context.Background(), notifyAction(i))
	}
	watched.read(t, n)
}

// What happens while the listening connection is down is never announced to it.
func TestWatchAllActionUpdates_AKilledListenerMissesNothing(t *testing.T) {
	const n = 300
	repo, kill, exec := startRepo(t, n)
	watched := watchRun(t, repo)
	exec("UPDATE actions SET phase = 5 WHERE name = 'n0'")
	repo.notifyActionUpdate(context.Background(), notifyAction(0))
	watched.read(t, 1)

	kill("notify-listener")
	exec(finishActionsSQL) // and nobody announces it
	watched.read(t, n-1)

	// It goes on as before.
	exec("UPDATE actions SET phase = 4 WHERE name = 'n7'")
	watched.phases["n7"] = 0
	exec("UPDATE actions SET phase = 5 WHERE name = 'n7'")
	repo.notifyActionUpdate(context.Background(), notifyAction(7))
	watched.read(t, 1)
}

func TestCatchUp_ReadsActionsThenEventsPageByPage(t *testing.T) {
	db, _ := notifyDatabase(t)
	exec := func(statement string, args ...any) {
		t.Helper()
		_, err := db.Exec(statement, args...)
		require.NoError(t, err)
	}
	since := time.Now().Truncate(time.Microsecond)
	exec(addActionsSQL, 2500, since) // all at one instant: pages are told apart by names
	exec(`UPDATE actions SET updated_at = $1 WHERE name IN ('n1', 'n2')`, since.Add(-time.Microsecond))
	exec(`INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version, created_at)
		SELECT 'flytesnacks', 'development', 'r1', 'n' || i, 1, 4, v, $1 FROM generate_series(1, 1100) AS i, generate_series(1, 2) AS v`, since)
	exec(`INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version, created_at)
		VALUES ('flytesnacks', 'development', 'r1', 'n9', 1, 5, 3, $1)`, since)

	actions, events, runs := map[string]int{}, map[string]int{}, 0
	unknown := 0
	next, pages := "", 0
	for more := true; more; more = next != "" {
		var page []pgnotify.Change
		var err error
		page, next, err = catchUpFrom(db.DB)(context.Background(), since, next)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(page), catchUpPage+1)
		pages++
		for _, change := range page {
			switch {
			case change.Channel == notifyChannelRuns:
				assert.Equal(t, "flytesnacks/development/r1", change.Payload)
				runs++
			case pages <= 3:
				actions[change.Payload]++
			default:
				events[change.Payload]++
			}
			if change.XID == 0 {
				unknown++
			}
		}
	}
	assert.Equal(t, 3+2, pages)
	assert.Equal(t, 1, runs)
	assert.Len(t, actions, 2501-2, "what was stamped before is left out")
	assert.Len(t, events, 1100)
	for _, found := range []map[string]int{actions, events} {
		for payload, times := range found {
			assert.Equal(t, 1, times, payload)
		}
	}
	assert.Equal(t, 1, unknown, "the events of n9 are of two transactions")

	_, _, err := catchUpFrom(db.DB)(context.Background(), since, "nonsense")
	assert.ErrorContains(t, err, fmt.Sprintf("%q", "nonsense"))
}
