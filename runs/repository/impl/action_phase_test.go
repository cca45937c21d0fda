package impl

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	queued    = common.ActionPhase_ACTION_PHASE_QUEUED
	running   = common.ActionPhase_ACTION_PHASE_RUNNING
	succeeded = common.ActionPhase_ACTION_PHASE_SUCCEEDED
	failed    = common.ActionPhase_ACTION_PHASE_FAILED
	aborted   = common.ActionPhase_ACTION_PHASE_ABORTED
	recovered = common.ActionPhase_ACTION_PHASE_RECOVERED
)

func updatePhase(t testing.TB, r *actionRepo, id *common.ActionIdentifier, phase common.ActionPhase) {
	t.Helper()
	require.NoError(t, r.UpdateActionPhase(t.Context(), id, phase, 1, core.CatalogCacheStatus_CACHE_MISS, nil, nil))
}

func TestUpdateActionPhaseMovesForwardOnly(t *testing.T) {
	r := newTestRepo(t)
	ear := newEar(t, r.dsn)

	// Row: the stored phase. Column: the new one. x: taken.
	allowed := [11]string{
		//   0123456789A
		0:  "xxxxxxxxxxx",
		1:  ".xxxxxxxxxx",
		2:  "..xxxxxxxxx",
		3:  "...xxxxxxxx",
		4:  "....xxxxxxx",
		5:  ".....xxxxxx",
		6:  ".xxxxxxxxxx", // FAILED: a retry may begin anywhere, but in no phase at all
		7:  ".......xxxx",
		8:  ".xxxxxxxxxx", // TIMED_OUT: likewise
		9:  ".....xxxxxx", // PAUSED: on to whatever ends it
		10: "..........x",
	}
	for from, row := range allowed {
		for to, mark := range row {
			id := actionID("matrix", fmt.Sprintf("from-%d-to-%d", from, to))
			create(t, r, id, func(a *models.Action) { a.Phase = int32(from) })
			require.Equal(t, actionUpdatesChannel+" "+actionKey(id), ear.next(), "creation of %s", id.Name)

			require.NoError(t, r.UpdateActionPhase(t.Context(), id, common.ActionPhase(to), 7, core.CatalogCacheStatus_CACHE_HIT, nil, nil))

			got := get(t, r, id)
			if mark == 'x' {
				assert.EqualValues(t, to, got.Phase, id.Name)
				assert.EqualValues(t, 7, got.Attempts, id.Name)
				assert.Equal(t, core.CatalogCacheStatus_CACHE_HIT, got.CacheStatus, id.Name)
				assert.Equal(t, actionUpdatesChannel+" "+actionKey(id), ear.next(), id.Name)
			} else {
				assert.EqualValues(t, from, got.Phase, id.Name)
				assert.EqualValues(t, 0, got.Attempts, id.Name)
				ear.silent(r)
			}
		}
	}
	require.NoError(t, r.UpdateActionPhase(t.Context(), actionID("matrix", "missing"), running, 1, 0, nil, nil), "no row is no error")
	ear.silent(r)
}

func TestUpdateActionPhaseTimes(t *testing.T) {
	r := newTestRepo(t)

	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) *time.Time {
		moment := created.Add(time.Duration(seconds * float64(time.Second)))
		return &moment
	}
	type update struct{ end, start *time.Time }
	tests := map[string]struct {
		updates     []update
		wantCreated *time.Time
		wantEnded   *time.Time
		wantMillis  int64
	}{
		"nothing given":                      {[]update{{nil, nil}}, at(0), nil, 0},
		"earlier start moves creation back":  {[]update{{nil, at(-5)}}, at(-5), nil, 0},
		"later start does not":               {[]update{{nil, at(5)}}, at(0), nil, 0},
		"end alone":                          {[]update{{at(2.5), nil}}, at(0), at(2.5), 2500},
		"end and earlier start":              {[]update{{at(2), at(-1)}}, at(-1), at(2), 3000},
		"end before creation is creation":    {[]update{{at(-3), nil}}, at(0), at(0), 0},
		"end before the start is the start":  {[]update{{at(-9), at(-4)}}, at(-4), at(-4), 0},
		"end is set once":                    {[]update{{at(3), nil}, {at(8), nil}}, at(0), at(3), 3000},
		"no end afterwards leaves it":        {[]update{{at(3), nil}, {nil, nil}}, at(0), at(3), 3000},
		"earlier start after the end counts": {[]update{{at(3), nil}, {nil, at(-1)}}, at(-1), at(3), 4000},
		"duration is cut, not rounded":       {[]update{{at(0.0019996), nil}}, at(0), at(0.001999), 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			id := actionID("times", name)
			create(t, r, id, func(a *models.Action) { a.CreatedAt = created })
			for _, u := range test.updates {
				require.NoError(t, r.UpdateActionPhase(t.Context(), id, succeeded, 1, 0, u.end, u.start))
			}
			got := get(t, r, id)
			assert.WithinDuration(t, *test.wantCreated, got.CreatedAt, 0)
			assert.Equal(t, test.wantEnded != nil, got.EndedAt.Valid)
			assert.Equal(t, test.wantEnded != nil, got.DurationMs.Valid)
			if test.wantEnded != nil {
				assert.WithinDuration(t, *test.wantEnded, got.EndedAt.Time, time.Microsecond)
				assert.Equal(t, test.wantMillis, got.DurationMs.Int64)
			}
		})
	}
}

// TestUpdateActionPhaseTimesInAllCombinations updates an action twice, and compares with the rule as arithmetic.
func TestUpdateActionPhaseTimesInAllCombinations(t *testing.T) {
	r := newTestRepo(t)
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	moments := map[string]*time.Time{
		"none":     nil,
		"earliest": &earliestTime,
		"before":   new(created.Add(-90 * time.Minute)),
		"same":     &created,
		"after":    new(created.Add(1234567 * time.Microsecond)),
		"latest":   &latestTime,
	}
	for start1, s1 := range moments {
		for end1, e1 := range moments {
			for _, start2 := range []string{"none", "before", "after"} {
				for _, end2 := range []string{"none", "before", "after"} {
					s2, e2 := moments[start2], moments[end2]
					name := fmt.Sprintf("%.3s-%.3s-%.3s-%.3s", start1, end1, start2, end2)
					id := actionID("all-times", name)
					create(t, r, id, func(a *models.Action) { a.CreatedAt = created })

					wantCreated, wantEnded := created, (*time.Time)(nil)
					for _, u := range []struct{ start, end *time.Time }{{s1, e1}, {s2, e2}} {
						require.NoError(t, r.UpdateActionPhase(t.Context(), id, succeeded, 1, 0, u.end, u.start))
						if u.start != nil && u.start.Before(wantCreated) {
							wantCreated = *u.start
						}
						if u.end != nil && wantEnded == nil {
							wantEnded = new(*u.end)
							if wantEnded.Before(wantCreated) {
								wantEnded = new(wantCreated)
							}
						}
					}

					got := get(t, r, id)
					assert.Equal(t, wantCreated.UnixMicro(), got.CreatedAt.UnixMicro(), name)
					assert.Equal(t, wantEnded != nil, got.EndedAt.Valid, name)
					assert.Equal(t, wantEnded != nil, got.DurationMs.Valid, name)
					if wantEnded != nil {
						assert.Equal(t, wantEnded.UnixMicro(), got.EndedAt.Time.UnixMicro(), name)
						assert.Equal(t, (wantEnded.UnixMicro()-wantCreated.UnixMicro())/1000, got.DurationMs.Int64, name)
					}
				}
			}
		}
	}
}

// What a sweep for missed changes relies on: a stamp is from after the wait for the row, not from the time the statement arrived.
func TestUpdatedAtIsFromAfterTheWaitForTheRow(t *testing.T) {
	r := newTestRepo(t)
	id := actionID("locked", "a1")
	create(t, r, id)

	writes := map[string]func() error{
		"UpdateActionPhase": func() error {
			return r.UpdateActionPhase(context.Background(), id, aborted, 1, 0, nil, nil)
		},
		"UpdateActionDetailedInfo": func() error { return r.UpdateActionDetailedInfo(context.Background(), id, []byte("x")) },
		"UpdateActionState":        func() error { return r.UpdateActionState(context.Background(), id, `{}`) },
		"AbortAction":              func() error { return r.AbortAction(context.Background(), id, "why", nil) },
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			holder := r.db.WithContext(t.Context()).Begin()
			require.NoError(t, holder.Error)
			defer holder.Rollback()
			require.NoError(t, holder.Exec("SELECT 1 FROM actions WHERE name = 'a1' FOR UPDATE").Error)

			outcome := make(chan error, 1)
			go func() { outcome <- write() }()
			awaitLockWaiter(t, r)

			// Changing the row as well makes the waiting statement look at a new version of it, the case that matters.
			require.NoError(t, holder.Exec("UPDATE actions SET created_by_subject = ? WHERE name = 'a1'", name).Error)
			var released time.Time
			require.NoError(t, holder.Raw("SELECT clock_timestamp()").Scan(&released).Error)
			require.NoError(t, holder.Commit().Error)
			require.NoError(t, <-outcome)

			got := get(t, r, id)
			assert.False(t, got.UpdatedAt.Before(released), "updated_at %s is before the lock was released at %s", got.UpdatedAt, released)
			assert.Equal(t, name, got.CreatedBySubject.String)
		})
	}
}
