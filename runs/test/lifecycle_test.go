package test

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

func (c client) watchActions(t *testing.T, run *common.RunIdentifier) *stream[workflow.WatchActionsResponse] {
	t.Helper()
	return follow(t, func(ctx context.Context) (*connect.ServerStreamForClient[workflow.WatchActionsResponse], error) {
		return c.WatchActions(ctx, connect.NewRequest(&workflow.WatchActionsRequest{RunId: run}))
	})
}

// latest is the last that a WatchActions stream has shown of each action, by name.
func latest(messages []*workflow.WatchActionsResponse) map[string]*workflow.EnrichedAction {
	actions := map[string]*workflow.EnrichedAction{}
	for _, message := range messages {
		for _, action := range message.GetEnrichedActions() {
			actions[action.GetAction().GetId().GetName()] = action
		}
	}
	return actions
}

func shownIn(phase common.ActionPhase, messages []*workflow.WatchActionsResponse) (n int) {
	for _, action := range latest(messages) {
		if action.GetAction().GetStatus().GetPhase() == phase {
			n++
		}
	}
	return n
}

func TestARunIsSeenOnEveryStream(t *testing.T) {
	s := startService(t, impl.NotifyModeSerial, pgproxy.Options{})
	c := s.client(t)
	ctx := testContext(t)
	run := runID("lifecycle")
	project := &common.ProjectIdentifier{Organization: "org", Domain: "domain", Name: "project"}
	require.NoError(t, c.record(ctx, run, 0))

	allRuns := follow(t, func(ctx context.Context) (*connect.ServerStreamForClient[workflow.WatchRunsResponse], error) {
		return c.WatchRuns(ctx, connect.NewRequest(&workflow.WatchRunsRequest{
			Target: &workflow.WatchRunsRequest_ProjectId{ProjectId: project}}))
	})
	oneRun := follow(t, func(ctx context.Context) (*connect.ServerStreamForClient[workflow.WatchRunDetailsResponse], error) {
		return c.WatchRunDetails(ctx, connect.NewRequest(&workflow.WatchRunDetailsRequest{RunId: run}))
	})
	actions := c.watchActions(t, run)
	allRuns.begun(t)
	oneRun.begun(t)
	actions.begun(t)

	require.NoError(t, c.record(ctx, run, 1))
	oneAction := follow(t, func(ctx context.Context) (*connect.ServerStreamForClient[workflow.WatchActionDetailsResponse], error) {
		return c.WatchActionDetails(ctx, connect.NewRequest(&workflow.WatchActionDetailsRequest{ActionId: actionID(run, 1)}))
	})
	oneAction.begun(t)
	for _, phase := range []common.ActionPhase{initializing, running, succeeded} {
		require.NoError(t, c.recordEvents(ctx, event(run, 1, phase)))
		require.NoError(t, c.update(ctx, run, 1, phase))
		oneAction.until(t, "a1 in "+phase.String(), func(messages []*workflow.WatchActionDetailsResponse) bool {
			return messages[len(messages)-1].GetDetails().GetStatus().GetPhase() == phase
		})
		actions.until(t, "a1 in "+phase.String(), func(messages []*workflow.WatchActionsResponse) bool {
			return latest(messages)["a1"].GetAction().GetStatus().GetPhase() == phase
		})
	}
	require.NoError(t, oneAction.end(t), "it ends when the last attempt has ended")
	last := oneAction.messages[len(oneAction.messages)-1].GetDetails()
	require.Len(t, last.GetAttempts(), 1)
	assert.Equal(t, succeeded, last.GetAttempts()[0].GetPhase())

	require.NoError(t, c.update(ctx, run, 0, running))
	require.NoError(t, c.update(ctx, run, 0, succeeded))
	actions.until(t, "the root, with its children counted", func(messages []*workflow.WatchActionsResponse) bool {
		root := latest(messages)["a0"]
		return root.GetAction().GetStatus().GetPhase() == succeeded && root.GetChildrenPhaseCounts()[int32(succeeded)] == 1
	})
	oneRun.until(t, "the run succeeded", func(messages []*workflow.WatchRunDetailsResponse) bool {
		return messages[len(messages)-1].GetDetails().GetAction().GetStatus().GetPhase() == succeeded
	})
	allRuns.until(t, "the run succeeded", func(messages []*workflow.WatchRunsResponse) bool {
		for _, message := range messages {
			for _, shown := range message.GetRuns() {
				if shown.GetAction().GetId().GetRun().GetName() == run.GetName() && shown.GetAction().GetStatus().GetPhase() == succeeded {
					return true
				}
			}
		}
		return false
	})
}
