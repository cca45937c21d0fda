package service

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

func TestAttemptsArePutTogetherInAnyOrderOfTheEvents(t *testing.T) {
	id := actionID("run", "a1")
	failure := &workflow.ErrorInfo{Message: "out of memory", Kind: workflow.ErrorInfo_KIND_SYSTEM}
	cached := &common.CacheMetadata{SourceActionAttempt: &common.ActionAttemptIdentifier{ActionId: id, Attempt: 1}}
	pulled := &workflow.ClusterEvent{OccurredAt: at(2), Message: "image pulled", Type: workflow.ClusterEvent_TYPE_NORMAL, Count: 1}
	started := &workflow.ClusterEvent{OccurredAt: at(3), Message: "started"}
	events := []*workflow.ActionEvent{
		{Id: id, Attempt: 1, Phase: queued, StartTime: at(0), UpdatedTime: at(0)},
		{Id: id, Attempt: 1, Phase: initializing, UpdatedTime: at(1), Cluster: "c1", ClusterEvents: []*workflow.ClusterEvent{pulled}},
		{Id: id, Attempt: 1, Phase: running, UpdatedTime: at(3), ClusterEvents: []*workflow.ClusterEvent{started}},
		{Id: id, Attempt: 1, Phase: running, Version: 1, UpdatedTime: at(4)},
		{Id: id, Attempt: 1, Phase: failed, UpdatedTime: at(5), EndTime: at(6), ErrorInfo: failure},
		{Id: id, Attempt: 2, Phase: running, UpdatedTime: at(7), CacheStatus: core.CatalogCacheStatus_CACHE_MISS},
		// What gives way to RUNNING again, though its number is higher.
		{Id: id, Attempt: 2, Phase: paused, UpdatedTime: at(8)},
		{Id: id, Attempt: 2, Phase: running, Version: 1, UpdatedTime: at(9)},
		// A clock that is behind: what ends an attempt comes last all the same.
		{Id: id, Attempt: 2, Phase: succeeded, UpdatedTime: at(8), CacheStatus: core.CatalogCacheStatus_CACHE_POPULATED, CacheMetadata: cached},
	}
	want := []*workflow.ActionAttempt{
		{
			Attempt: 1, Phase: failed, StartTime: at(0), EndTime: at(6), ErrorInfo: failure, Cluster: "c1",
			ClusterEvents: []*workflow.ClusterEvent{pulled, started},
			PhaseTransitions: []*workflow.PhaseTransition{
				{Phase: queued, StartTime: at(0), EndTime: at(1)},
				{Phase: initializing, StartTime: at(1), EndTime: at(3)},
				{Phase: running, StartTime: at(3), EndTime: at(5)},
				{Phase: failed, StartTime: at(5), EndTime: at(6)},
			},
		},
		{
			Attempt: 2, Phase: succeeded, StartTime: at(7), EndTime: at(8),
			CacheStatus: core.CatalogCacheStatus_CACHE_POPULATED, CacheMetadata: cached,
			PhaseTransitions: []*workflow.PhaseTransition{
				{Phase: running, StartTime: at(7), EndTime: at(8)},
				{Phase: paused, StartTime: at(8), EndTime: at(9)},
				{Phase: running, StartTime: at(9), EndTime: at(8)},
				{Phase: succeeded, StartTime: at(8), EndTime: at(8)},
			},
		},
	}
	for range 20 {
		rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		got := attemptsOf(events)
		require.Len(t, got, len(want))
		for i := range want {
			require.True(t, proto.Equal(want[i], got[i]), "want %v\ngot  %v", want[i], got[i])
		}
	}
}

func TestAttemptsWithoutTimesFollowThePhases(t *testing.T) {
	id := actionID("run", "a1")
	got := attemptsOf([]*workflow.ActionEvent{
		{Id: id, Attempt: 1, Phase: running, Version: 2},
		{Id: id, Attempt: 1, Phase: running},
		{Id: id, Attempt: 1, Phase: queued},
	})
	require.Len(t, got, 1)
	assert.Equal(t, running, got[0].GetPhase())
	assert.Nil(t, got[0].GetStartTime())
	assert.Nil(t, got[0].GetEndTime())
	require.Len(t, got[0].GetPhaseTransitions(), 2)
	assert.Empty(t, attemptsOf(nil))
}

func TestHappenedAtTakesTheBestTime(t *testing.T) {
	for _, test := range []struct {
		event *workflow.ActionEvent
		want  *timestamppb.Timestamp
	}{
		{&workflow.ActionEvent{UpdatedTime: at(1), ReportedTime: at(2), StartTime: at(3)}, at(1)},
		{&workflow.ActionEvent{ReportedTime: at(2), StartTime: at(3)}, at(2)},
		{&workflow.ActionEvent{StartTime: at(3)}, at(3)},
	} {
		assert.Equal(t, test.want.AsTime(), happenedAt(test.event))
	}
	assert.True(t, happenedAt(&workflow.ActionEvent{}).IsZero())
}

func TestEveryPhaseIsTerminalOrNot(t *testing.T) {
	terminal := map[common.ActionPhase]bool{
		succeeded: true, failed: true, aborted: true,
		common.ActionPhase_ACTION_PHASE_TIMED_OUT: true, common.ActionPhase_ACTION_PHASE_RECOVERED: true,
	}
	for number := range common.ActionPhase_name {
		assert.Equal(t, terminal[common.ActionPhase(number)], isTerminal(common.ActionPhase(number)), "%d", number)
	}
	assert.ElementsMatch(t, []string{"1", "2", "3", "4", "9"}, phasesNotEnded())
}
