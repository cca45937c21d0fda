package impl

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

func newEvent(t testing.TB, id *common.ActionIdentifier, attempt uint32, phase common.ActionPhase, version uint32) *models.ActionEvent {
	t.Helper()
	event, err := models.NewActionEventModel(&workflow.ActionEvent{Id: id, Attempt: attempt, Phase: phase, Version: version, Cluster: "c1"})
	require.NoError(t, err)
	return event
}

func TestInsertEventsInChunks(t *testing.T) {
	for _, test := range []struct{ rows, actions, statements int }{
		{0, 1, 0},
		{1, 1, 1},
		{5000, 7, 1},
		{5001, 7, 2},
		{12000, 100, 3},
		{12000, 1, 3},
	} {
		t.Run(fmt.Sprintf("%d rows of %d actions", test.rows, test.actions), func(t *testing.T) {
			r := newTestRepo(t)
			ear := newEar(t, r.dsn)
			events := make([]*models.ActionEvent, test.rows)
			want := make(map[string]int)
			for i := range events {
				id := actionID("run", fmt.Sprintf("a%d", i%test.actions))
				events[i] = newEvent(t, id, 1, running, uint32(i))
				want[actionUpdatesChannel+" "+actionKey(id)] = 1
			}
			rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })

			for range 2 { // the second time, every row is there already
				require.NoError(t, r.InsertEvents(t.Context(), events))
				assert.Equal(t, want, ear.nextN(len(want)))
				ear.silent(r)
			}

			var rows, statements int
			require.NoError(t, r.db.Raw("SELECT count(*), count(DISTINCT xmin::text) FROM action_events").Row().Scan(&rows, &statements))
			assert.Equal(t, test.rows, rows)
			assert.Equal(t, test.statements, statements, "each statement is a transaction, and leaves its number in its rows")
		})
	}
}

func TestInsertEventsKeepsEveryColumn(t *testing.T) {
	r := newTestRepo(t)
	id := actionID("run", "a1")
	reported := &workflow.ActionEvent{
		Id: id, Attempt: 3, Phase: failed, Version: 8, Cluster: "c1",
		ErrorInfo: &workflow.ErrorInfo{Message: "boom", Kind: workflow.ErrorInfo_KIND_SYSTEM},
	}
	withError, err := models.NewActionEventModel(reported)
	require.NoError(t, err)
	bare := newEvent(t, id, 3, running, 0)
	bare.Info = nil
	before := databaseNow(t, r)
	require.NoError(t, r.InsertEvents(t.Context(), []*models.ActionEvent{withError, bare, withError}))

	got, err := r.ListEvents(t.Context(), id, 10)
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Nil(t, got[0].Info)
	assert.False(t, got[0].ErrorKind.Valid)
	assert.Equal(t, "KIND_SYSTEM", got[1].ErrorKind.String)
	for _, event := range got {
		assert.False(t, event.CreatedAt.Before(before) || event.UpdatedAt.Before(before), "the database's time")
	}
	back, err := got[1].ToActionEvent()
	require.NoError(t, err)
	assert.True(t, proto.Equal(reported, back))
}

func TestListEventsOrderAndLimit(t *testing.T) {
	r := newTestRepo(t)
	id := actionID("run", "a1")
	ordered := []*models.ActionEvent{
		newEvent(t, id, 1, queued, 0), newEvent(t, id, 1, running, 0), newEvent(t, id, 1, running, 1), newEvent(t, id, 1, failed, 0),
		newEvent(t, id, 2, queued, 0), newEvent(t, id, 2, running, 9), newEvent(t, id, 2, running, 10),
	}
	shuffled := append([]*models.ActionEvent{newEvent(t, actionID("run", "a2"), 1, succeeded, 0)}, ordered...)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	require.NoError(t, r.InsertEvents(t.Context(), shuffled))

	for _, limit := range []int{1, 3, 7, 100} {
		got, err := r.ListEvents(t.Context(), id, limit)
		require.NoError(t, err)
		require.Len(t, got, min(limit, len(ordered)))
		for i, event := range got {
			assert.Equal(t, []any{ordered[i].Attempt, ordered[i].Phase, ordered[i].Version}, []any{event.Attempt, event.Phase, event.Version})
		}
	}
	for _, limit := range []int{0, -1} {
		_, err := r.ListEvents(t.Context(), id, limit)
		require.ErrorContains(t, err, "limit")
	}

	latest, err := r.GetLatestEventByAttempt(t.Context(), id, 1)
	require.NoError(t, err)
	assert.EqualValues(t, failed, latest.Phase)
	latest, err = r.GetLatestEventByAttempt(t.Context(), id, 2)
	require.NoError(t, err)
	assert.EqualValues(t, 10, latest.Version)
}

func TestInsertEventsRefusesNil(t *testing.T) {
	r := newTestRepo(t)
	err := r.InsertEvents(t.Context(), []*models.ActionEvent{newEvent(t, actionID("run", "a1"), 1, queued, 0), nil})
	require.ErrorContains(t, err, "events[1]")
}

// What was committed before a statement failed is announced, what failed is not.
func TestInsertEventsAnnouncesWhatWasCommitted(t *testing.T) {
	r := newTestRepo(t)
	ear := newEar(t, r.dsn)
	var events []*models.ActionEvent
	for i := range eventsPerInsert {
		events = append(events, newEvent(t, actionID("run", "a1"), 1, running, uint32(i)))
	}
	bad := newEvent(t, actionID("run", "a2"), 1, running, 0)
	bad.ErrorKind.String, bad.ErrorKind.Valid = "a\x00b", true
	require.Error(t, r.InsertEvents(t.Context(), append(events, bad)))
	assert.Equal(t, actionUpdatesChannel+" proj/dev/run/a1", ear.next())
	ear.silent(r)
}

// Without one order for all, inserts that overlap would run into deadlocks.
func TestInsertEventsThatOverlapDoNotDeadlock(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	var wg sync.WaitGroup
	for range 8 {
		var events []*models.ActionEvent
		for i := range 2000 {
			events = append(events, newEvent(t, actionID("run", "a1"), 1, running, uint32(i)))
		}
		rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		wg.Go(func() { assert.NoError(t, r.InsertEvents(t.Context(), events)) })
	}
	wg.Wait()
}
