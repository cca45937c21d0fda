package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"connectrpc.com/connect"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
)

// fakeService keeps the phases in memory and tells every stream of every change. The functions are its faults; nil: none.
type fakeService struct {
	workflowconnect.UnimplementedRunServiceHandler
	workflowconnect.UnimplementedInternalRunServiceHandler
	workflowconnect.UnimplementedEventsProxyServiceHandler

	hide   func(*common.ActionIdentifier) bool              // from the streams, when terminal
	update func(*workflow.UpdateActionStatusRequest) error  // fails the call
	inBand func(*workflow.UpdateActionStatusRequest) string // reports a failure in the answer

	mu      sync.Mutex
	changed *sync.Cond
	log     []*workflow.Action // every change
	phases  map[string]common.ActionPhase
	events  int
	proxied int
	closing bool
}

func startFake(t *testing.T) (*fakeService, string) {
	t.Helper()
	f := &fakeService{phases: map[string]common.ActionPhase{}}
	f.changed = sync.NewCond(&f.mu)
	mux := http.NewServeMux()
	mux.Handle(workflowconnect.NewRunServiceHandler(f))
	mux.Handle(workflowconnect.NewInternalRunServiceHandler(f))
	mux.Handle(workflowconnect.NewEventsProxyServiceHandler(f))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		f.endStreams()
		server.Close()
	})
	return f, server.URL
}

func (f *fakeService) endStreams() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
	f.changed.Broadcast()
}

func key(id *common.ActionIdentifier) string { return id.GetRun().GetName() + "/" + id.GetName() }

func (f *fakeService) set(id *common.ActionIdentifier, phase common.ActionPhase) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phases[key(id)] = phase
	if f.hide != nil && terminal(phase) && f.hide(id) {
		return
	}
	f.log = append(f.log, &workflow.Action{Id: id, Status: &workflow.ActionStatus{Phase: phase}})
	f.changed.Broadcast()
}

// follow gives all changes to see, old and new, until it says that it is enough.
func (f *fakeService) follow(ctx context.Context, see func(*workflow.Action) (enough bool, err error)) error {
	defer context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})()
	for next := 0; ; {
		f.mu.Lock()
		for next == len(f.log) && ctx.Err() == nil && !f.closing {
			f.changed.Wait()
		}
		news := f.log[next:]
		f.mu.Unlock()
		if len(news) == 0 {
			return ctx.Err()
		}
		next += len(news)
		for _, action := range news {
			if enough, err := see(action); enough || err != nil {
				return err
			}
		}
	}
}

func (f *fakeService) ListRuns(context.Context, *connect.Request[workflow.ListRunsRequest]) (*connect.Response[workflow.ListRunsResponse], error) {
	return connect.NewResponse(&workflow.ListRunsResponse{}), nil
}

func (f *fakeService) WatchRuns(ctx context.Context, _ *connect.Request[workflow.WatchRunsRequest], stream *connect.ServerStream[workflow.WatchRunsResponse]) error {
	return f.follow(ctx, func(a *workflow.Action) (bool, error) {
		if a.GetId().GetName() != rootName {
			return false, nil
		}
		return false, stream.Send(&workflow.WatchRunsResponse{Runs: []*workflow.Run{{Action: a}}})
	})
}

func (f *fakeService) WatchActions(ctx context.Context, request *connect.Request[workflow.WatchActionsRequest], stream *connect.ServerStream[workflow.WatchActionsResponse]) error {
	return f.follow(ctx, func(a *workflow.Action) (bool, error) {
		if a.GetId().GetRun().GetName() != request.Msg.GetRunId().GetName() {
			return false, nil
		}
		return false, stream.Send(&workflow.WatchActionsResponse{EnrichedActions: []*workflow.EnrichedAction{{Action: a, MeetsFilter: true}}})
	})
}

func (f *fakeService) WatchActionDetails(ctx context.Context, request *connect.Request[workflow.WatchActionDetailsRequest], stream *connect.ServerStream[workflow.WatchActionDetailsResponse]) error {
	return f.follow(ctx, func(a *workflow.Action) (bool, error) {
		if key(a.GetId()) != key(request.Msg.GetActionId()) {
			return false, nil
		}
		return terminal(a.GetStatus().GetPhase()), stream.Send(&workflow.WatchActionDetailsResponse{
			Details: &workflow.ActionDetails{Id: a.GetId(), Status: a.GetStatus()}})
	})
}

func (f *fakeService) RecordAction(_ context.Context, request *connect.Request[workflow.RecordActionRequest]) (*connect.Response[workflow.RecordActionResponse], error) {
	f.set(request.Msg.GetActionId(), common.ActionPhase_ACTION_PHASE_QUEUED)
	return connect.NewResponse(&workflow.RecordActionResponse{ActionId: request.Msg.GetActionId(), Status: &rpcstatus.Status{}}), nil
}

func (f *fakeService) UpdateActionStatus(_ context.Context, request *connect.Request[workflow.UpdateActionStatusRequest]) (*connect.Response[workflow.UpdateActionStatusResponse], error) {
	if f.update != nil {
		if err := f.update(request.Msg); err != nil {
			return nil, err
		}
	}
	status := &rpcstatus.Status{}
	if f.inBand != nil {
		if message := f.inBand(request.Msg); message != "" {
			status = &rpcstatus.Status{Code: int32(connect.CodeInternal), Message: message}
		}
	}
	if status.GetCode() == 0 {
		f.set(request.Msg.GetActionId(), request.Msg.GetStatus().GetPhase())
	}
	return connect.NewResponse(&workflow.UpdateActionStatusResponse{ActionId: request.Msg.GetActionId(), Status: status}), nil
}

func (f *fakeService) RecordActionEvents(_ context.Context, request *connect.Request[workflow.RecordActionEventsRequest]) (*connect.Response[workflow.RecordActionEventsResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events += len(request.Msg.GetEvents())
	return connect.NewResponse(&workflow.RecordActionEventsResponse{Status: &rpcstatus.Status{}}), nil
}

func (f *fakeService) Record(_ context.Context, request *connect.Request[workflow.RecordRequest]) (*connect.Response[workflow.RecordResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proxied += len(request.Msg.GetEvents())
	return connect.NewResponse(&workflow.RecordResponse{}), nil
}
