package impl

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

func TestCreateActionReturnsTheRowAsStored(t *testing.T) {
	r := newTestRepo(t)
	before := databaseNow(t, r)

	given := models.NewActionModel(actionID("run", rootActionName))
	given.TaskType = "python"
	given.ActionSpec = []byte{1, 2, 3}
	given.TriggerRevision = sql.NullInt64{Int64: 9, Valid: true}
	given.UpdatedAt = time.Unix(0, 0) // must not be written
	copied := *given
	created, err := r.CreateAction(t.Context(), given, false)
	require.NoError(t, err)
	assert.Equal(t, copied, *given, "the argument is left alone")

	assert.False(t, created.CreatedAt.Before(before), "created_at is the database's")
	assert.False(t, created.UpdatedAt.Before(before), "updated_at is the database's")
	assert.EqualValues(t, queued, created.Phase)

	stored := get(t, r, actionID("run", rootActionName))
	assert.True(t, stored.UpdatedAt.Equal(created.UpdatedAt))
	stored.UpdatedAt, stored.CreatedAt = created.UpdatedAt, created.CreatedAt // the same moments, differently located
	assert.Equal(t, stored, created)

	run, err := r.GetRun(t.Context(), runID("run"))
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 2, 3}, run.ActionSpec)
}

func TestCreateActionTwiceChangesNothing(t *testing.T) {
	r := newTestRepo(t)
	ear := newEar(t, r.dsn)
	id := actionID("run", rootActionName)
	first := create(t, r, id, func(a *models.Action) { a.TaskType = "first" })
	ear.nextN(2)

	again := models.NewActionModel(id)
	again.TaskType = "second"
	got, err := r.CreateAction(t.Context(), again, false)
	require.NoError(t, err)
	assert.Equal(t, "first", got.TaskType)
	assert.True(t, first.UpdatedAt.Equal(got.UpdatedAt))
	ear.silent(r)
}

func TestCreateActionConcurrentlyWakesOnce(t *testing.T) {
	r := newTestRepo(t)
	ear := newEar(t, r.dsn)
	id := actionID("run", "a1")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			action := models.NewActionModel(id)
			action.ParentActionName = sql.NullString{String: rootActionName, Valid: true}
			action.TaskType = fmt.Sprint(i)
			_, err := r.CreateAction(t.Context(), action, false)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	assert.Equal(t, actionUpdatesChannel+" "+actionKey(id), ear.next())
	ear.silent(r)
}

func TestCreateActionTriggered(t *testing.T) {
	r := newTestRepo(t)
	scheduled := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

	action := models.NewActionModel(actionID("plain", rootActionName))
	action.CreatedAt = scheduled
	got, err := r.CreateAction(t.Context(), action, false)
	require.NoError(t, err)
	assert.True(t, got.CreatedAt.Equal(scheduled), "the given time counts")

	action = models.NewActionModel(actionID("triggered", rootActionName))
	action.CreatedAt = scheduled
	_, err = r.CreateAction(t.Context(), action, true)
	require.ErrorContains(t, err, "updateTriggeredAt", "no trigger named")

	action.TriggerName = sql.NullString{String: "nightly", Valid: true}
	before := databaseNow(t, r)
	got, err = r.CreateAction(t.Context(), action, true)
	require.NoError(t, err)
	assert.False(t, got.CreatedAt.Before(before), "the database's time counts")

	action.Name, action.ParentActionName = "a1", sql.NullString{String: rootActionName, Valid: true}
	_, err = r.CreateAction(t.Context(), action, true)
	require.ErrorContains(t, err, "updateTriggeredAt", "not a root action")
}

func TestNotFoundIsOneCondition(t *testing.T) {
	r := newTestRepo(t)
	create(t, r, actionID("no-root", "a1"))

	errs := map[string]error{}
	_, errs["run not found: proj/dev/none"] = r.GetRun(t.Context(), runID("none"))
	_, errs["run not found: proj/dev/no-root"] = r.GetRun(t.Context(), runID("no-root"))
	errs["abort run: run not found: proj/dev/gone"] = r.AbortRun(t.Context(), runID("gone"), "", nil)
	_, errs["action not found: proj/dev/none/a1"] = r.GetAction(t.Context(), actionID("none", "a1"))
	errs["action not found: proj/dev/none/a2"] = r.UpdateActionDetailedInfo(t.Context(), actionID("none", "a2"), nil)
	errs["action not found: proj/dev/none/a3"] = r.UpdateActionState(t.Context(), actionID("none", "a3"), "{}")
	errs["abort action proj/dev/none/a4: action not found: proj/dev/none/a4"] = r.AbortAction(t.Context(), actionID("none", "a4"), "", nil)
	_, errs["event not found: action proj/dev/none/a5, attempt 2"] = r.GetLatestEventByAttempt(t.Context(), actionID("none", "a5"), 2)
	for want, err := range errs {
		assert.ErrorIs(t, err, sql.ErrNoRows)
		assert.EqualError(t, err, want)
	}
}

func TestAbort(t *testing.T) {
	alice := &common.EnrichedIdentity{Principal: &common.EnrichedIdentity_User{User: &common.User{Id: &common.UserIdentifier{Subject: "alice"}}}}
	r := newTestRepo(t)
	log := logged(t)
	before := databaseNow(t, r)

	root, child := actionID("run", rootActionName), actionID("run", "a1")
	create(t, r, root)
	create(t, r, child)
	require.NoError(t, r.AbortRun(t.Context(), runID("run"), "too slow", alice))
	got := get(t, r, root)
	assert.EqualValues(t, aborted, got.Phase)
	assert.Equal(t, sql.NullString{String: "too slow", Valid: true}, got.AbortReason)
	assert.True(t, got.AbortRequestedAt.Valid && !got.AbortRequestedAt.Time.Before(before))
	assert.EqualValues(t, 0, got.AbortAttemptCount)
	assert.True(t, got.EndedAt.Valid)
	assert.Equal(t, got.EndedAt.Time.Sub(got.CreatedAt).Milliseconds(), got.DurationMs.Int64)
	assert.Contains(t, log(), "alice")

	assert.EqualValues(t, queued, get(t, r, child).Phase, "the root only")
	require.NoError(t, r.AbortAction(t.Context(), child, "not needed", alice))
	got = get(t, r, child)
	assert.EqualValues(t, aborted, got.Phase)
	assert.Equal(t, "not needed", got.AbortReason.String)

	// Not even a retry can take an aborted action up again.
	updatePhase(t, r, child, running)
	assert.EqualValues(t, aborted, get(t, r, child).Phase)
}

// A client can fill a request, but not the log.
func TestAbortKeepsALongReasonOutOfTheLog(t *testing.T) {
	r := newTestRepo(t)
	log := logged(t)
	id := actionID("run", rootActionName)
	create(t, r, id)
	reason := "begin\n" + strings.Repeat("x", 100_000)
	require.NoError(t, r.AbortAction(t.Context(), id, reason, nil))
	assert.Equal(t, reason, get(t, r, id).AbortReason.String)
	assert.Contains(t, log(), "aborted by")
	assert.Less(t, len(log()), 10_000)
}

func TestAbortOfWhatHasEnded(t *testing.T) {
	r := newTestRepo(t)
	ended := time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)
	for phase, changes := range map[common.ActionPhase]bool{succeeded: false, recovered: false, failed: true, aborted: true} {
		id := actionID("run-"+phase.String(), rootActionName)
		create(t, r, id, func(a *models.Action) {
			a.Phase = int32(phase)
			a.CreatedAt = ended.Add(-time.Second)
			a.EndedAt = sql.NullTime{Time: ended, Valid: true}
		})
		require.NoError(t, r.AbortAction(t.Context(), id, "why", nil))
		require.NoError(t, r.AbortRun(t.Context(), id.GetRun(), "why", nil))
		got := get(t, r, id)
		assert.True(t, got.EndedAt.Time.Equal(ended), "%s: an end is set once", phase)
		assert.Equal(t, changes, got.AbortRequestedAt.Valid, phase)
		if !changes {
			assert.EqualValues(t, phase, got.Phase)
		}
	}
}

func TestUpdateActionStateWantsJSON(t *testing.T) {
	r := newTestRepo(t)
	id := actionID("run", "a1")
	create(t, r, id)
	for _, bad := range []string{"", "{", `{"a":1} x`, "\x00", "{\"a\":\"\xff"} {
		require.ErrorContains(t, r.UpdateActionState(t.Context(), id, bad), "not valid JSON", bad)
	}
	const state = ` {"phase": "RUNNING",  "n": 1e400}`
	require.NoError(t, r.UpdateActionState(t.Context(), id, state))
	assert.Equal(t, state, string(get(t, r, id).ActionDetails), "byte for byte")

	require.NoError(t, r.UpdateActionDetailedInfo(t.Context(), id, []byte{0, 255}))
	assert.Equal(t, []byte{0, 255}, get(t, r, id).DetailedInfo)
}

// databaseNow is the time by the database's clock.
func databaseNow(t testing.TB, r *actionRepo) (now time.Time) {
	t.Helper()
	require.NoError(t, r.db.WithContext(t.Context()).Raw("SELECT clock_timestamp()").Scan(&now).Error)
	return now
}
