package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

// wireProtocols are all ways in which a client can speak to the service.
var wireProtocols = map[string][]connect.ClientOption{
	"connect":      nil,
	"connect-json": {connect.WithProtoJSON()},
	"grpc":         {connect.WithGRPC()},
	"grpc-json":    {connect.WithGRPC(), connect.WithProtoJSON()},
	"grpc-web":     {connect.WithGRPCWeb()},
}

// TestEveryMethodInEveryProtocol walks one run through all RPCs of the contract.
func TestEveryMethodInEveryProtocol(t *testing.T) {
	server := newServer(t, newRepo(t))
	for protocol, options := range wireProtocols {
		t.Run(protocol, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), eventually)
			defer cancel()
			runs, internal, events := server.runs(options...), server.internal(options...), server.events(options...)
			run := randomName()
			root, child := actionID(run, "a0"), actionID(run, "a1")

			for _, id := range []*common.ActionIdentifier{root, child} {
				response, err := internal.RecordAction(ctx, connect.NewRequest(recordRequest(id)))
				require.NoError(t, err)
				require.Zero(t, response.Msg.GetStatus().GetCode())
				require.Equal(t, id.GetName(), response.Msg.GetActionId().GetName())
			}

			update, err := internal.UpdateActionStatus(ctx, connect.NewRequest(statusRequest(child, running)))
			require.NoError(t, err)
			require.Zero(t, update.Msg.GetStatus().GetCode())
			require.Equal(t, "a1", update.Msg.GetActionId().GetName())

			recorded, err := internal.RecordActionEvents(ctx, connect.NewRequest(&workflow.RecordActionEventsRequest{
				Events: []*workflow.ActionEvent{eventOf(child, 1, queued, 0), eventOf(child, 1, running, 1)},
			}))
			require.NoError(t, err)
			require.NotNil(t, recorded.Msg.GetStatus())
			require.Zero(t, recorded.Msg.GetStatus().GetCode())

			_, err = events.Record(ctx, connect.NewRequest(&workflow.RecordRequest{
				Events: []*workflow.ActionEvent{eventOf(child, 1, succeeded, 2)},
			}))
			require.NoError(t, err)

			actionDetails, err := runs.GetActionDetails(ctx, connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: child}))
			require.NoError(t, err)
			require.Equal(t, running, actionDetails.Msg.GetDetails().GetStatus().GetPhase())
			require.Len(t, actionDetails.Msg.GetDetails().GetAttempts(), 1)
			require.Equal(t, succeeded, actionDetails.Msg.GetDetails().GetAttempts()[0].GetPhase())

			runDetails, err := runs.GetRunDetails(ctx, connect.NewRequest(&workflow.GetRunDetailsRequest{RunId: runID(run)}))
			require.NoError(t, err)
			require.Equal(t, "env.fn", runDetails.Msg.GetDetails().GetAction().GetMetadata().GetTask().GetId().GetName())

			listed, err := runs.ListActions(ctx, connect.NewRequest(&workflow.ListActionsRequest{RunId: runID(run)}))
			require.NoError(t, err)
			require.Len(t, listed.Msg.GetActions(), 2)

			listedRuns, err := runs.ListRuns(ctx, connect.NewRequest(&workflow.ListRunsRequest{
				ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"},
				Request: &common.ListRequest{Filters: []*common.Filter{{Field: "run_name", Values: []string{run}}}},
			}))
			require.NoError(t, err)
			require.Len(t, listedRuns.Msg.GetRuns(), 1)
			require.Equal(t, "org", listedRuns.Msg.GetRuns()[0].GetAction().GetId().GetRun().GetOrg())

			firstOf(t, runs.WatchRunDetails, &workflow.WatchRunDetailsRequest{RunId: runID(run)}, func(m *workflow.WatchRunDetailsResponse) {
				assert.Equal(t, "a0", m.GetDetails().GetAction().GetId().GetName())
			})
			firstOf(t, runs.WatchActionDetails, &workflow.WatchActionDetailsRequest{ActionId: child}, func(m *workflow.WatchActionDetailsResponse) {
				assert.Equal(t, "a1", m.GetDetails().GetId().GetName())
			})
			firstOf(t, runs.WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_Org{Org: "org"}}, func(m *workflow.WatchRunsResponse) {
				assert.NotEmpty(t, m.GetRuns())
			})
			firstOf(t, runs.WatchActions, &workflow.WatchActionsRequest{RunId: runID(run)}, func(m *workflow.WatchActionsResponse) {
				assert.Len(t, m.GetEnrichedActions(), 2)
			})

			if protocol != "grpc-web" { // which has no streams from the client
				streamOnce(t, internal.RecordActionStream(ctx), &workflow.RecordActionStreamRequest{Request: recordRequest(child)},
					func(m *workflow.RecordActionStreamResponse) {
						assert.Equal(t, "a1", m.GetResponse().GetActionId().GetName())
						assert.Zero(t, m.GetResponse().GetStatus().GetCode())
					})
				streamOnce(t, internal.UpdateActionStatusStream(ctx),
					&workflow.UpdateActionStatusStreamRequest{Request: statusRequest(child, succeeded), Nonce: 77},
					func(m *workflow.UpdateActionStatusStreamResponse) {
						assert.EqualValues(t, 77, m.GetNonce())
						assert.NotNil(t, m.GetResponse().GetStatus())
						assert.Zero(t, m.GetResponse().GetStatus().GetCode())
					})
				streamOnce(t, internal.RecordActionEventStream(ctx),
					&workflow.RecordActionEventStreamRequest{
						Request: &workflow.RecordActionEventRequest{Event: eventOf(child, 2, queued, 9)}, Nonce: -1,
					},
					func(m *workflow.RecordActionEventStreamResponse) {
						assert.EqualValues(t, -1, m.GetNonce())
						assert.Equal(t, "a1", m.GetResponse().GetActionId().GetName())
						assert.Zero(t, m.GetResponse().GetStatus().GetCode())
					})
			}

			_, err = runs.AbortAction(ctx, connect.NewRequest(&workflow.AbortActionRequest{ActionId: root, Reason: "enough"}))
			require.NoError(t, err)
			reason := "again"
			_, err = runs.AbortRun(ctx, connect.NewRequest(&workflow.AbortRunRequest{RunId: runID(run), Reason: &reason}))
			require.NoError(t, err)
			runDetails, err = runs.GetRunDetails(ctx, connect.NewRequest(&workflow.GetRunDetailsRequest{RunId: runID(run)}))
			require.NoError(t, err)
			require.Equal(t, aborted, runDetails.Msg.GetDetails().GetAction().GetStatus().GetPhase())
			require.NotEmpty(t, runDetails.Msg.GetDetails().GetAction().GetAbortInfo().GetReason())
		})
	}
}

// firstOf opens a watch, looks at its first message and leaves.
func firstOf[Request, Response any](
	t *testing.T, open func(context.Context, *connect.Request[Request]) (*connect.ServerStreamForClient[Response], error),
	request *Request, look func(*Response),
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	stream, err := open(ctx, connect.NewRequest(request))
	require.NoError(t, err)
	require.True(t, stream.Receive(), "%v", stream.Err())
	look(stream.Msg())
	cancel()
	for stream.Receive() {
		continue
	}
	_ = stream.Close()
}

// streamOnce sends one request on a stream, looks at the response, and ends the stream in good order.
func streamOnce[Request, Response any](
	t *testing.T, stream *connect.BidiStreamForClient[Request, Response], request *Request, look func(*Response),
) {
	t.Helper()
	require.NoError(t, stream.Send(request))
	response, err := stream.Receive()
	require.NoError(t, err)
	look(response)
	require.NoError(t, stream.CloseRequest())
	_, err = stream.Receive()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, stream.CloseResponse())
}

// TestCurl sends what the README tells people to type.
func TestCurl(t *testing.T) {
	server := newServer(t, newRepo(t))
	run := randomName()
	id := fmt.Sprintf(`{"run":{"org":"org","project":"proj","domain":"dev","name":%q},"name":"a0"}`, run)

	code, body := server.post(t, "/flyteidl2.workflow.InternalRunService/RecordAction", "application/json",
		fmt.Sprintf(`{"actionId":%s,"task":{"id":{"org":"org","project":"proj","domain":"dev","name":"env.fn","version":"v1"}}}`, id))
	require.Equal(t, http.StatusOK, code, body)

	code, body = server.post(t, "/flyteidl2.workflow.InternalRunService/UpdateActionStatus", "application/json",
		fmt.Sprintf(`{"actionId":%s,"status":{"phase":"ACTION_PHASE_RUNNING","attempts":1}}`, id))
	require.Equal(t, http.StatusOK, code, body)

	code, body = server.post(t, "/flyteidl2.workflow.RunService/GetActionDetails", "application/json", fmt.Sprintf(`{"actionId":%s}`, id))
	require.Equal(t, http.StatusOK, code, body)
	var details workflow.GetActionDetailsResponse
	require.NoError(t, protojson.Unmarshal([]byte(body), &details))
	require.Equal(t, running, details.GetDetails().GetStatus().GetPhase())

	code, body = server.post(t, "/flyteidl2.workflow.RunService/GetActionDetails", "application/json", `{"actionId":{"name":"a0"}}`)
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "action_id.run")
}

func (s *testServer) post(t *testing.T, path, contentType, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", contentType)
	response, err := s.http1.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(answer)
}

func TestOtherMethodsAreUnimplemented(t *testing.T) {
	server := newServer(t, nil)
	others := map[string][]string{
		"RunService": {
			"CreateRun", "GetActionData", "WatchClusterEvents", "SignalEvent", "WatchGroups", "GetActionDataURIs", "GetActionLogContext",
		},
		"InternalRunService": {"NoSuchMethod"},
		"EventsProxyService": {"NoSuchMethod"},
	}
	for service, methods := range others {
		for _, method := range methods {
			path := "/flyteidl2.workflow." + service + "/" + method
			for protocol, options := range wireProtocols {
				t.Run(path+" "+protocol, func(t *testing.T) {
					unary := connect.NewClient[workflow.RecordRequest, workflow.RecordResponse](server.http2, server.URL+path, options...)
					_, err := unary.CallUnary(t.Context(), connect.NewRequest(&workflow.RecordRequest{}))
					requireCode(t, connect.CodeUnimplemented, err, path)

					stream, err := unary.CallServerStream(t.Context(), connect.NewRequest(&workflow.RecordRequest{}))
					require.NoError(t, err)
					require.False(t, stream.Receive())
					requireCode(t, connect.CodeUnimplemented, stream.Err(), path)
					require.NoError(t, stream.Close())
				})
			}
			t.Run(path+" curl", func(t *testing.T) {
				code, body := server.post(t, path, "application/json", "{}")
				require.Equal(t, http.StatusNotImplemented, code)
				var answer struct{ Code string }
				require.NoError(t, json.NewDecoder(bytes.NewBufferString(body)).Decode(&answer))
				require.Equal(t, "unimplemented", answer.Code)
			})
		}
	}
}
