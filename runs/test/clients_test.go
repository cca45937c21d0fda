package test

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// A client that opens a stream and does not read it must cost neither the writers nor the other clients anything.
func TestASlowClientDelaysNobody(t *testing.T) {
	s := startService(t, impl.NotifyModeSerial, pgproxy.Options{})
	c := s.client(t)
	ctx := testContext(t)
	const n, smallest = 300, 64 << 10
	run := runID("slow")
	require.NoError(t, c.record(ctx, run, 0))
	each(t, n, func(number int) error { return c.record(ctx, run, number) })

	// The service can send this one no more than its window, a few hundred actions.
	slow := s.clientWith(t, &http.HTTP2Config{MaxReceiveBufferPerStream: smallest, MaxReceiveBufferPerConnection: smallest})
	for range 4 {
		unread, err := slow.WatchActions(ctx, connect.NewRequest(&workflow.WatchActionsRequest{RunId: run}))
		require.NoError(t, err)
		defer func() { _ = unread.Close() }()
	}
	quick := s.client(t).watchActions(t, run)
	quick.begun(t)
	for number := 1; number <= n; number++ {
		require.NoError(t, c.update(ctx, run, number, running))
		require.NoError(t, c.update(ctx, run, number, succeeded))
		// One after the other, so that the quick client always has room and every update reaches it.
		quick.until(t, "the action succeeded", func(messages []*workflow.WatchActionsResponse) bool {
			return latest(messages)[actionID(run, number).GetName()].GetAction().GetStatus().GetPhase() == succeeded
		})
	}
}

func TestAClientThatGoesAwayFreesEverything(t *testing.T) {
	s := startService(t, impl.NotifyModeSerial, pgproxy.Options{})
	c := s.client(t)
	ctx := testContext(t)
	run := runID("left")
	require.NoError(t, c.record(ctx, run, 0))

	watching, leave := context.WithCancel(ctx)
	defer leave()
	for range 20 {
		one := s.client(t)
		open(watching, t, one.WatchActions, &workflow.WatchActionsRequest{RunId: run})
		open(watching, t, one.WatchRunDetails, &workflow.WatchRunDetailsRequest{RunId: run})
		open(watching, t, one.WatchActionDetails, &workflow.WatchActionDetailsRequest{ActionId: actionID(run, 0)})
		open(watching, t, one.WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_Org{Org: "org"}})
	}
	require.GreaterOrEqual(t, subscriptions(), 80)
	leave()
	waitFor(t, "the end of every subscription", func() bool { return subscriptions() == 0 })

	again := s.client(t).watchActions(t, run) // and it still works
	again.begun(t)
	require.NoError(t, c.update(ctx, run, 0, succeeded))
	again.until(t, "the root succeeded", func(messages []*workflow.WatchActionsResponse) bool { return shownIn(succeeded, messages) == 1 })
}

// open opens a stream and reads its first message, so that the service has subscribed.
func open[Request, Response any](ctx context.Context, t *testing.T,
	method func(context.Context, *connect.Request[Request]) (*connect.ServerStreamForClient[Response], error), request *Request,
) {
	t.Helper()
	opened, err := method(ctx, connect.NewRequest(request))
	require.NoError(t, err)
	require.True(t, opened.Receive(), opened.Err())
	t.Cleanup(func() { _ = opened.Close() })
}

// subscriptions counts the goroutines that are in a Watch* method of the repository: one per subscription of this process.
func subscriptions() int {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	n := 0
	for goroutine := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(goroutine, []byte("repository/impl.(*actionRepo).Watch")) {
			n++
		}
	}
	return n
}
