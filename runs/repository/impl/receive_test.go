package impl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// far keeps the interval out of the way: what is tested is not to be rescued by it.
const far = time.Hour

func killBackends(t testing.TB, r *actionRepo, role string) (killed int) {
	t.Helper()
	require.NoError(t, r.db.Raw(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE '%' || ?`, role).Scan(&killed).Error)
	return killed
}

func awaitReady(t testing.TB, r *actionRepo) {
	t.Helper()
	require.Eventually(t, func() bool { return r.listener.Ready() == nil }, eventually, poll)
}

// nextPhase reads updates until the action is shown in the phase.
func (w *watch) nextPhase(name string, phase int32) {
	w.t.Helper()
	for {
		if update := w.next(); update.Name == name && update.Phase == phase {
			return
		}
	}
}

// A stream is open, the listener is killed, the run finishes while it is down and nobody is left to announce it; then silence.
func TestAWatcherSeesWhatHappenedWhileTheListenerWasDown(t *testing.T) {
	config := testDbConfig(t)
	r := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))
	dying := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff, CatchUpInterval: far}))
	root, child := actionID("run", rootActionName), actionID("run", "a1")
	create(t, r, root)
	create(t, r, child)
	run, runs, actions, action := watchRun(t, r, runID("run")), watchAllRuns(t, r), watchAllActions(t, r, runID("run"), 0), watchAction(t, r, child)

	for range 3 {
		updatePhase(t, dying, root, succeeded)
		updatePhase(t, dying, child, succeeded)
		require.Positive(t, killBackends(t, r, "notify-listener"))
		run.nextPhase(rootActionName, int32(succeeded))
		runs.nextPhase(rootActionName, int32(succeeded))
		actions.nextPhase("a1", int32(succeeded))
		action.nextPhase("a1", int32(succeeded))
		awaitReady(t, r)
		awaitReady(t, dying)
	}
}

// A change whose stamp is from before a search and whose commit comes after it.
func TestALateCommitIsFoundByTheNextSearch(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{CatchUpInterval: 50 * time.Millisecond, CatchUpOverlap: time.Millisecond}))
	id := actionID("run", "a1")
	create(t, r, id)
	w := watchAction(t, r, id)
	w.next()
	tx := r.db.WithContext(t.Context()).Begin()
	require.NoError(t, tx.Exec("UPDATE actions SET attempts = 7, updated_at = now() WHERE name = 'a1'").Error)
	searches := r.listener.Stats().CatchUps
	require.Eventually(t, func() bool { return r.listener.Stats().CatchUps > searches+3 }, eventually, poll)
	require.NoError(t, tx.Commit().Error)
	for w.next().Attempts != 7 {
	}
}

// An event alone changes an action too.
func TestAWatcherSeesEventsThatNobodyAnnounced(t *testing.T) {
	config := testDbConfig(t)
	r := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{CatchUpInterval: 50 * time.Millisecond}))
	dying := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	child := actionID("run", "a1")
	create(t, r, child)
	w := watchAction(t, r, child)
	for version := range 3 {
		for len(w.updates) > 0 {
			<-w.updates
		}
		require.NoError(t, dying.InsertEvents(t.Context(), []*models.ActionEvent{newEvent(t, child, 1, running, uint32(version))}))
		assert.Equal(t, "a1", w.next().Name)
	}
}

func TestReadyTellsWhyNot(t *testing.T) {
	r := newTestRepo(t)
	repo := &Repository{actions: r}
	require.NoError(t, repo.NotifyReady(t.Context()))
	assert.Empty(t, repo.NotifyStatus().Listener.Error)
	assert.NotZero(t, repo.NotifyStatus().Listener.BackendPID)
	require.NoError(t, r.Close(t.Context()))
	require.ErrorIs(t, repo.NotifyReady(t.Context()), pgnotify.ErrListenerClosed)
	assert.Contains(t, repo.NotifyStatus().Listener.Error, "closed")
}

func TestPumpAndListenerMayHaveConnectionStringsOfTheirOwn(t *testing.T) {
	config := testDbConfig(t)
	own := database.GetPostgresDsn(t.Context(), config.Postgres) + " application_name="
	for _, mode := range []NotifyMode{NotifyModeBatched, NotifyModeSerial} {
		t.Run(string(mode), func(t *testing.T) {
			r := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{Mode: mode, PumpDSN: own + "here", ListenDSN: own + "there"}))
			id := actionID("run", rootActionName)
			create(t, r, id)
			require.Eventually(t, func() bool {
				r.notifyActionUpdate(t.Context(), id) // makes the pump connect
				var names []string
				require.NoError(t, r.db.Raw(`SELECT application_name FROM pg_stat_activity
					WHERE datname = current_database() AND application_name LIKE '% notify-%' ORDER BY 1`).Scan(&names).Error)
				return slices.Equal(names, []string{"here notify-pump", "there notify-listener"})
			}, eventually, poll)
		})
	}
}

// A failed read is skipped by WatchAllRunUpdates. It must not be the last that its receiver hears of the run.
func TestARunThatCouldNotBeReadIsToldAgain(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))
	root := actionID("run", rootActionName)
	create(t, r, root)
	w := startWatch(t, r, r.runSubscribers, 10, r.WatchAllRunUpdates)
	assert.Equal(t, "run", w.next().RunName)
	log := logged(t)
	require.NoError(t, r.db.Exec("ALTER TABLE actions RENAME TO actions_elsewhere").Error)
	r.notifyRunUpdate(t.Context(), runID("run"))
	require.Eventually(t, func() bool {
		for len(w.updates) > 0 { // what came twice
			<-w.updates
		}
		return strings.Contains(log(), "cannot be read")
	}, eventually, poll)
	require.NoError(t, r.db.Exec("ALTER TABLE actions_elsewhere RENAME TO actions").Error)
	assert.Equal(t, "run", w.next().RunName)
}

// A migration changes the type of a column that every read returns, under prepared statements on each connection of the pool.
func TestReadsGoOnAfterAMigration(t *testing.T) {
	r := newTestRepo(t)
	id := actionID("run", rootActionName)
	create(t, r, id)
	w := watchAction(t, r, id)
	// Reads that all wait at the same moment are each on a connection of its own.
	readEverywhere := func() {
		const connections = 5
		holder := r.db.WithContext(t.Context()).Begin()
		require.NoError(t, holder.Error)
		require.NoError(t, holder.Exec("LOCK TABLE action_events IN ACCESS EXCLUSIVE MODE").Error)
		var reading sync.WaitGroup
		for range connections {
			reading.Go(func() {
				assert.NoError(t, r.db.Connection(func(tx *gorm.DB) error { return tx.Exec("SELECT 1 FROM action_events").Error }))
				_, err := r.GetAction(t.Context(), id)
				_, runErr := r.GetRun(t.Context(), runID("run"))
				assert.NoError(t, errors.Join(err, runErr))
			})
		}
		require.Eventually(t, func() bool { return r.sqlDB.Stats().InUse > connections }, eventually, poll)
		require.NoError(t, holder.Rollback().Error)
		reading.Wait()
	}
	readEverywhere()
	for _, kind := range []string{"VARCHAR(1000)", "TEXT"} {
		require.NoError(t, r.db.Exec("ALTER TABLE actions ALTER COLUMN task_type TYPE "+kind).Error)
		require.NoError(t, r.NotifyStateUpdate(t.Context(), id))
		assert.Equal(t, rootActionName, w.next().Name)
		readEverywhere()
		_, _, err := r.catchUp(t.Context(), time.Now().Add(-time.Hour), "")
		require.NoError(t, err)
	}
}

// catchUpAll reads all pages and counts what they have.
func catchUpAll(t testing.TB, r *actionRepo, since time.Time) (found map[string]int, pages int, unknown int) {
	t.Helper()
	found = map[string]int{}
	for next, more := "", true; more; more = next != "" {
		var page []pgnotify.Change
		var err error
		page, next, err = r.catchUp(t.Context(), since, next)
		require.NoError(t, err)
		pages++
		for _, change := range page {
			found[change.Channel+" "+change.Payload]++
			if change.XID == 0 {
				unknown++
			}
		}
	}
	return found, pages, unknown
}

func TestCatchUpReadsActionsThenEventsPageByPage(t *testing.T) {
	r := newTestRepo(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := r.sqlDB.ExecContext(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	since := time.Now().Truncate(time.Microsecond)
	// All at one instant, so that pages are told apart by names only.
	exec(`INSERT INTO actions (project, domain, run_name, name, parent_action_name, updated_at)
		SELECT 'p', 'd', 'r', name, CASE WHEN name <> 'a0' THEN 'a0' END, $1 FROM (SELECT 'a' || i AS name FROM generate_series(0, 2500) AS i) AS names`, since)
	exec("UPDATE actions SET updated_at = $1 WHERE name IN ('a1', 'a2')", since.Add(-time.Microsecond))
	exec(`INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version, created_at)
		SELECT 'p', 'd', 'e', 'a' || i, 1, 4, v, $1 FROM generate_series(1, 1100) AS i, generate_series(1, 2) AS v`, since)
	exec(`INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version, created_at) VALUES ('p', 'd', 'e', 'a9', 1, 5, 3, $1)`, since)

	found, pages, unknown := catchUpAll(t, r, since)
	assert.Equal(t, 3+2, pages)
	assert.Len(t, found, 2501-2+1100+1)
	assert.Equal(t, 1, found["run_updates p/d/r"])
	for what, times := range found {
		require.Equal(t, 1, times, what)
	}
	assert.NotContains(t, found, "action_updates p/d/r/a1", "stamped before")
	assert.Equal(t, 1, unknown, "the events of a9 are of two transactions")

	_, _, err := r.catchUp(t.Context(), since, "nonsense")
	require.ErrorContains(t, err, `catch-up position "nonsense"`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = r.catchUp(gone, since, "")
	require.ErrorIs(t, err, context.Canceled)
}

// However much there is, a page is found by the index, and costs about what it returns.
func TestCatchUpReadsByIndex(t *testing.T) {
	r := newTestRepo(t)
	require.NoError(t, r.db.Exec(`INSERT INTO actions (project, domain, run_name, name, updated_at)
		SELECT 'p', 'd', 'r' || i, 'a0', now() - i * interval '1 second' FROM generate_series(0, 50000) AS i`).Error)
	require.NoError(t, r.db.Exec(`INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version, created_at)
		SELECT 'p', 'd', 'r' || i, 'a0', 1, 4, 0, now() - i * interval '1 second' FROM generate_series(0, 50000) AS i`).Error)
	require.NoError(t, r.db.Exec("ANALYZE actions, action_events").Error)
	for name, query := range map[string]string{"idx_actions_updated_at": changedActionsSQL, "idx_action_events_created_at": addedEventsSQL} {
		rows, err := r.sqlDB.QueryContext(t.Context(), "EXPLAIN "+query, time.Now().Add(-40*time.Second), "", "", "", "", catchUpPage)
		require.NoError(t, err)
		var plan []string
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			plan = append(plan, line)
		}
		require.NoError(t, rows.Err())
		text := strings.Join(plan, "\n")
		assert.Contains(t, text, name)
		assert.NotContains(t, text, "Seq Scan")
	}
	found, _, _ := catchUpAll(t, r, time.Now().Add(-40*time.Second))
	assert.InDelta(t, 41*2, len(found), 20, fmt.Sprint(len(found)))
}
