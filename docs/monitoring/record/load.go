package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
)

const (
	runCount    = 5
	writers     = 20
	callTimeout = 30 * time.Second
	pause       = 100 * time.Millisecond // of a writer, between two calls
)

// load drives actions through their phases, a few hundred calls a second, with a watcher for each run, until ctx ends. What fails during an
// outage is tried again: the service is what is measured, not the client.
func load(ctx context.Context, url string) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	internal := workflowconnect.NewInternalRunServiceClient(client, url)
	watches := workflowconnect.NewRunServiceClient(client, url)

	var running sync.WaitGroup
	defer running.Wait()
	for r := range runCount {
		run := &common.RunIdentifier{Org: "o", Project: "p", Domain: "d", Name: fmt.Sprint("run", r)}
		running.Go(func() {
			for ctx.Err() == nil {
				stream, err := watches.WatchActions(ctx, connect.NewRequest(&workflow.WatchActionsRequest{RunId: run}))
				if err == nil {
					for stream.Receive() {
					}
					_ = stream.Close()
				}
				wait(ctx, time.Second)
			}
		})
	}
	for w := range writers {
		running.Go(func() {
			run := &common.RunIdentifier{Org: "o", Project: "p", Domain: "d", Name: fmt.Sprint("run", w%runCount)}
			for i := 0; ctx.Err() == nil; i++ {
				oneAction(ctx, internal, &common.ActionIdentifier{Run: run, Name: fmt.Sprintf("w%d-%d", w, i)})
			}
		})
	}
}

func oneAction(ctx context.Context, client workflowconnect.InternalRunServiceClient, id *common.ActionIdentifier) {
	until(ctx, func(ctx context.Context) bool {
		answer, err := client.RecordAction(ctx, connect.NewRequest(&workflow.RecordActionRequest{
			ActionId: id, Parent: "a0", Spec: &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{}},
		}))
		return err == nil && answer.Msg.GetStatus().GetCode() == 0
	})
	for _, phase := range []common.ActionPhase{
		common.ActionPhase_ACTION_PHASE_INITIALIZING, common.ActionPhase_ACTION_PHASE_RUNNING, common.ActionPhase_ACTION_PHASE_SUCCEEDED,
	} {
		until(ctx, func(ctx context.Context) bool {
			answer, err := client.UpdateActionStatus(ctx, connect.NewRequest(&workflow.UpdateActionStatusRequest{
				ActionId: id, Status: &workflow.ActionStatus{Phase: phase, Attempts: 1},
			}))
			return err == nil && answer.Msg.GetStatus().GetCode() == 0
		})
	}
}

// until calls again until it went well.
func until(ctx context.Context, call func(context.Context) bool) {
	for ctx.Err() == nil {
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		well := call(callCtx)
		cancel()
		wait(ctx, pause)
		if well {
			return
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
