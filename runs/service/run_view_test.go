package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

func viewRow(name, parent string, phase common.ActionPhase, version int) *models.Action {
	row := models.NewActionModel(actionID("run", name))
	row.ParentActionName = nullable(parent)
	row.Phase = int32(phase)
	row.UpdatedAt = testTime.Add(time.Duration(version) * time.Microsecond)
	return row
}

// TestRunViewFollowsAnyHistory plays random histories of a run to a view, which hears of changes late, folded, repeated and without order,
// as watchers do, and checks that in the end the watcher knows what is.
func TestRunViewFollowsAnyHistory(t *testing.T) {
	phases := []common.ActionPhase{queued, running, succeeded, failed}
	rapid.Check(t, func(rt *rapid.T) {
		filtered := rapid.Bool().Draw(rt, "filtered")
		var filter actionFilter
		if filtered {
			filter = actionFilter{func(row *models.Action) bool { return row.Phase != int32(succeeded) }}
		}
		table := map[string]*models.Action{}
		read := func(_ context.Context, name string) (*models.Action, error) { return table[name], nil }
		view := newRunView("org", filter, read)
		type known struct {
			phase  common.ActionPhase
			counts map[int32]int32
		}
		client := map[string]known{}

		version := 0
		var pending []string
		names := make([]string, rapid.IntRange(1, 8).Draw(rt, "actions"))
		for i := range names {
			names[i] = fmt.Sprintf("a%d", i)
		}
		deliver := func(batch []string) {
			var rows []*models.Action
			for _, name := range batch {
				rows = append(rows, table[name])
			}
			shown, err := view.apply(t.Context(), rows)
			require.NoError(rt, err)
			seen := map[string]bool{}
			for _, action := range shown {
				name := action.GetAction().GetId().GetName()
				require.False(rt, seen[name], "%s twice in one message", name)
				seen[name] = true
				if _, had := client[name]; !had {
					require.True(rt, action.GetMeetsFilter(), "%s was never shown, and is taken back", name)
				}
				if action.GetMeetsFilter() {
					client[name] = known{action.GetAction().GetStatus().GetPhase(), action.GetChildrenPhaseCounts()}
				} else {
					delete(client, name)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(names)-1).Draw(rt, "action")
			if rapid.Bool().Draw(rt, "write") {
				version++
				parent := ""
				if i > 0 {
					parent = names[(i-1)/2] // a binary tree
				}
				table[names[i]] = viewRow(names[i], parent, rapid.SampledFrom(phases).Draw(rt, "phase"), version)
				pending = append(pending, names[i])
				continue
			}
			n := rapid.IntRange(0, len(pending)).Draw(rt, "delivered")
			batch := pending[:n]
			pending = pending[n:]
			if n > 0 && rapid.Bool().Draw(rt, "repeated") {
				batch = append(batch[:n:n], batch[0])
			}
			deliver(batch)
		}
		deliver(pending)

		want := map[string]known{}
		for name, row := range table {
			if !filter.meets(row) {
				continue
			}
			counts := map[int32]int32{}
			for _, child := range table {
				if child.ParentActionName.String == name {
					counts[child.Phase]++
				}
			}
			if len(counts) == 0 {
				counts = nil
			}
			want[name] = known{common.ActionPhase(row.Phase), counts}
		}
		require.Len(rt, client, len(want))
		for name := range want {
			require.Equal(rt, want[name].phase, client[name].phase, name)
			require.True(rt, maps.Equal(want[name].counts, client[name].counts), "%s: want %v, got %v", name, want[name].counts, client[name].counts)
		}
	})
}

func TestRunViewDoesNotShowTheSameAgain(t *testing.T) {
	view := newRunView("org", nil, nil)
	row := viewRow("a0", "", running, 1)
	shown, err := view.apply(t.Context(), []*models.Action{row, row})
	require.NoError(t, err)
	require.Len(t, shown, 1)
	shown, err = view.apply(t.Context(), []*models.Action{viewRow("a0", "", running, 1)})
	require.NoError(t, err)
	assert.Empty(t, shown)
	shown, err = view.apply(t.Context(), []*models.Action{viewRow("a0", "", running, 2)})
	require.NoError(t, err)
	assert.Len(t, shown, 1)
}

func TestRunViewReadsAParentOnce(t *testing.T) {
	reads := 0
	view := newRunView("org", nil, func(_ context.Context, name string) (*models.Action, error) {
		reads++
		return viewRow(name, "", running, 1), nil
	})
	_, err := view.apply(t.Context(), []*models.Action{viewRow("a0", "", running, 1)})
	require.NoError(t, err)
	for i := range 10 {
		shown, err := view.apply(t.Context(), []*models.Action{viewRow(fmt.Sprintf("c%d", i), "a0", queued, 1)})
		require.NoError(t, err)
		require.Len(t, shown, 2)
		assert.Equal(t, map[int32]int32{int32(queued): int32(i + 1)}, shown[1].GetChildrenPhaseCounts())
	}
	assert.Equal(t, 1, reads)
}

func TestRunViewCopesWithAParentThatCannotBeRead(t *testing.T) {
	var answer error
	view := newRunView("org", nil, func(context.Context, string) (*models.Action, error) { return nil, answer })
	_, err := view.apply(t.Context(), []*models.Action{viewRow("a0", "", running, 1)})
	require.NoError(t, err)

	answer = fmt.Errorf("action not found: %w", sql.ErrNoRows)
	shown, err := view.apply(t.Context(), []*models.Action{viewRow("c1", "a0", queued, 1)})
	require.NoError(t, err)
	assert.Len(t, shown, 1)

	answer = errors.New("connection lost")
	_, err = view.apply(t.Context(), []*models.Action{viewRow("c2", "a0", queued, 1)})
	require.ErrorContains(t, err, "connection lost")
}
