package impl

import (
	"database/sql"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

func TestValuesOutOfBoundsAreNamed(t *testing.T) {
	r := newTestRepo(t)
	id := actionID("bounds", "a1")
	create(t, r, id)
	outside := map[string]time.Time{
		"before the first year":        earliestTime.Add(-1),
		"after the last":               latestTime.Add(1),
		"out of PostgreSQL's range":    time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC),
		"out of PostgreSQL's range, -": time.Date(-5_000, 1, 1, 0, 0, 0, 0, time.UTC),
		"out of a microsecond count's": time.Unix(math.MaxInt64/2, 0),
	}
	const bound = " is not within 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999999999Z"
	for what, at := range outside {
		err := r.UpdateActionPhase(t.Context(), id, running, 1, 0, nil, &at)
		assert.ErrorContains(t, err, "update phase of action proj/dev/bounds/a1: startTime: ", what)
		assert.ErrorContains(t, err, bound, what)
		err = r.UpdateActionPhase(t.Context(), id, running, 1, 0, &at, nil)
		assert.ErrorContains(t, err, "update phase of action proj/dev/bounds/a1: endTime: ", what)
		assert.ErrorContains(t, err, bound, what)

		for field, set := range map[string]func(*models.Action){
			"createdAt":        func(a *models.Action) { a.CreatedAt = at },
			"endedAt":          func(a *models.Action) { a.EndedAt = sql.NullTime{Time: at, Valid: true} },
			"abortRequestedAt": func(a *models.Action) { a.AbortRequestedAt = sql.NullTime{Time: at, Valid: true} },
		} {
			action := models.NewActionModel(actionID("bounds", "a2"))
			set(action)
			_, err := r.CreateAction(t.Context(), action, false)
			assert.ErrorContains(t, err, "create action proj/dev/bounds/a2: "+field+": ", what)
			assert.ErrorContains(t, err, bound, what)
		}
	}

	const tooMany = "attempts: 2147483648 is above 2147483647"
	assert.ErrorContains(t, r.UpdateActionPhase(t.Context(), id, running, 1<<31, 0, nil, nil), tooMany)
	action := models.NewActionModel(actionID("bounds", "a2"))
	action.Attempts = 1 << 31
	_, err := r.CreateAction(t.Context(), action, false)
	assert.ErrorContains(t, err, tooMany)

	got := get(t, r, id)
	assert.Zero(t, got.Attempts)
	updatePhase(t, r, id, running)
}
