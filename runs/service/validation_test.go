package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

// rpc is a method with a request that passes, for an action or run that need not exist.
type rpc struct {
	name    string
	request proto.Message
	call    func(context.Context, *testServer, proto.Message) error
}

func unary[Request, Response any](
	name string, request proto.Message,
	method func(*testServer) func(context.Context, *connect.Request[Request]) (*connect.Response[Response], error),
) rpc {
	return rpc{name, request, func(ctx context.Context, server *testServer, m proto.Message) error {
		_, err := method(server)(ctx, connect.NewRequest(any(m).(*Request)))
		return err
	}}
}

func serverStream[Request, Response any](
	name string, request proto.Message,
	method func(*testServer) func(context.Context, *connect.Request[Request]) (*connect.ServerStreamForClient[Response], error),
) rpc {
	return rpc{name, request, func(ctx context.Context, server *testServer, m proto.Message) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := method(server)(ctx, connect.NewRequest(any(m).(*Request)))
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		stream.Receive()
		err = stream.Err()
		cancel()
		return err
	}}
}

func bidiStream[Request, Response any](
	name string, request proto.Message, method func(*testServer) func(context.Context) *connect.BidiStreamForClient[Request, Response],
) rpc {
	return rpc{name, request, func(ctx context.Context, server *testServer, m proto.Message) error {
		stream := method(server)(ctx)
		defer func() { _ = stream.CloseResponse() }()
		defer func() { _ = stream.CloseRequest() }()
		// EOF says that the server has answered already; the answer is what Receive returns.
		if err := stream.Send(any(m).(*Request)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err := stream.Receive()
		return err
	}}
}

// rpcs are all methods of the contract.
func rpcs() []rpc {
	event := func() *workflow.ActionEvent { return eventOf(actionID("run", "a1"), 1, running, 0) }
	return []rpc{
		unary("Record", &workflow.RecordRequest{Events: []*workflow.ActionEvent{event()}},
			func(s *testServer) func(context.Context, *connect.Request[workflow.RecordRequest]) (*connect.Response[workflow.RecordResponse], error) {
				return s.events().Record
			}),
		unary("RecordAction", recordRequest(actionID("run", "a1")),
			func(s *testServer) func(context.Context, *connect.Request[workflow.RecordActionRequest]) (*connect.Response[workflow.RecordActionResponse], error) {
				return s.internal().RecordAction
			}),
		unary("UpdateActionStatus", statusRequest(actionID("run", "a1"), running),
			func(s *testServer) func(context.Context, *connect.Request[workflow.UpdateActionStatusRequest]) (*connect.Response[workflow.UpdateActionStatusResponse], error) {
				return s.internal().UpdateActionStatus
			}),
		unary("RecordActionEvents", &workflow.RecordActionEventsRequest{Events: []*workflow.ActionEvent{event()}},
			func(s *testServer) func(context.Context, *connect.Request[workflow.RecordActionEventsRequest]) (*connect.Response[workflow.RecordActionEventsResponse], error) {
				return s.internal().RecordActionEvents
			}),
		bidiStream("RecordActionStream", &workflow.RecordActionStreamRequest{Request: recordRequest(actionID("run", "a1"))},
			func(s *testServer) func(context.Context) *connect.BidiStreamForClient[workflow.RecordActionStreamRequest, workflow.RecordActionStreamResponse] {
				return s.internal().RecordActionStream
			}),
		bidiStream("UpdateActionStatusStream", &workflow.UpdateActionStatusStreamRequest{Request: statusRequest(actionID("run", "a1"), running)},
			func(s *testServer) func(context.Context) *connect.BidiStreamForClient[workflow.UpdateActionStatusStreamRequest, workflow.UpdateActionStatusStreamResponse] {
				return s.internal().UpdateActionStatusStream
			}),
		bidiStream("RecordActionEventStream", &workflow.RecordActionEventStreamRequest{Request: &workflow.RecordActionEventRequest{Event: event()}},
			func(s *testServer) func(context.Context) *connect.BidiStreamForClient[workflow.RecordActionEventStreamRequest, workflow.RecordActionEventStreamResponse] {
				return s.internal().RecordActionEventStream
			}),
		unary("AbortRun", &workflow.AbortRunRequest{RunId: runID("run"), Reason: proto.String("enough")},
			func(s *testServer) func(context.Context, *connect.Request[workflow.AbortRunRequest]) (*connect.Response[workflow.AbortRunResponse], error) {
				return s.runs().AbortRun
			}),
		unary("GetRunDetails", &workflow.GetRunDetailsRequest{RunId: runID("run")},
			func(s *testServer) func(context.Context, *connect.Request[workflow.GetRunDetailsRequest]) (*connect.Response[workflow.GetRunDetailsResponse], error) {
				return s.runs().GetRunDetails
			}),
		serverStream("WatchRunDetails", &workflow.WatchRunDetailsRequest{RunId: runID("run")},
			func(s *testServer) func(context.Context, *connect.Request[workflow.WatchRunDetailsRequest]) (*connect.ServerStreamForClient[workflow.WatchRunDetailsResponse], error) {
				return s.runs().WatchRunDetails
			}),
		unary("GetActionDetails", &workflow.GetActionDetailsRequest{ActionId: actionID("run", "a1")},
			func(s *testServer) func(context.Context, *connect.Request[workflow.GetActionDetailsRequest]) (*connect.Response[workflow.GetActionDetailsResponse], error) {
				return s.runs().GetActionDetails
			}),
		serverStream("WatchActionDetails", &workflow.WatchActionDetailsRequest{ActionId: actionID("run", "a1")},
			func(s *testServer) func(context.Context, *connect.Request[workflow.WatchActionDetailsRequest]) (*connect.ServerStreamForClient[workflow.WatchActionDetailsResponse], error) {
				return s.runs().WatchActionDetails
			}),
		unary("ListRuns", &workflow.ListRunsRequest{ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"}},
			func(s *testServer) func(context.Context, *connect.Request[workflow.ListRunsRequest]) (*connect.Response[workflow.ListRunsResponse], error) {
				return s.runs().ListRuns
			}),
		serverStream("WatchRuns", &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_Org{Org: "org"}},
			func(s *testServer) func(context.Context, *connect.Request[workflow.WatchRunsRequest]) (*connect.ServerStreamForClient[workflow.WatchRunsResponse], error) {
				return s.runs().WatchRuns
			}),
		unary("ListActions", &workflow.ListActionsRequest{RunId: runID("run")},
			func(s *testServer) func(context.Context, *connect.Request[workflow.ListActionsRequest]) (*connect.Response[workflow.ListActionsResponse], error) {
				return s.runs().ListActions
			}),
		serverStream("WatchActions", &workflow.WatchActionsRequest{RunId: runID("run")},
			func(s *testServer) func(context.Context, *connect.Request[workflow.WatchActionsRequest]) (*connect.ServerStreamForClient[workflow.WatchActionsResponse], error) {
				return s.runs().WatchActions
			}),
		unary("AbortAction", &workflow.AbortActionRequest{ActionId: actionID("run", "a1"), Reason: "enough"},
			func(s *testServer) func(context.Context, *connect.Request[workflow.AbortActionRequest]) (*connect.Response[workflow.AbortActionResponse], error) {
				return s.runs().AbortAction
			}),
	}
}

// textBounds are the constraints on a text.
type textBounds struct{ min, max int }

var (
	part       = textBounds{1, 63}
	name       = textBounds{1, 30}
	parentName = textBounds{0, 30}
	longName   = textBounds{1, 255}
	anyLength  = textBounds{0, 0}
)

// TestEveryMethodRefusesWhatTheContractRefuses tries, for every method, each field's bounds from both sides, over the wire.
func TestEveryMethodRefusesWhatTheContractRefuses(t *testing.T) {
	server := newServer(t, newRepo(t))
	for _, rpc := range rpcs() {
		t.Run(rpc.name, func(t *testing.T) {
			passes := func(what string, request proto.Message) {
				t.Helper()
				if err := rpc.call(t.Context(), server, request); err != nil {
					require.NotEqual(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%s: %v", what, err)
				}
			}
			refuses := func(what, field string, request proto.Message) {
				t.Helper()
				err := rpc.call(t.Context(), server, request)
				require.Error(t, err, what)
				requireCode(t, connect.CodeInvalidArgument, err, field)
			}
			passes("as it is", rpc.request)

			walk(rpc.request.ProtoReflect(), "", func(path string, field protoreflect.FieldDescriptor) {
				with := func(value any) proto.Message { return changed(rpc.request, path, value) }
				if bounds, isPart := boundsOf(field); isPart {
					for _, good := range bounds.good(path) {
						passes(path+" = "+strconv.Quote(good), with(good))
					}
					for _, bad := range bounds.bad() {
						refuses(path+" = "+strconv.Quote(bad), path, with(bad))
					}
				}
				switch field.Name() {
				case "attempt", "attempts":
					refuses(path+" = 0", path, with(uint32(0)))
					refuses(path+" = 2^31", path, with(uint32(1<<31)))
					passes(path+" = 1", with(uint32(1)))
				case "phase":
					refuses(path+" = 99", path, with(protoreflect.EnumNumber(99)))
					passes(path+" = 10", with(protoreflect.EnumNumber(10)))
				case "action_id", "run_id", "status", "event", "events", "run", "id", "request":
					if !strings.Contains(path, "task.") && !(field.Name() == "request" && strings.HasPrefix(rpc.name, "List")) {
						refuses("without "+path, path, with(nil))
					}
				}
			})
		})
	}
}

// boundsOf returns the constraints of a text that is a part of an identifier.
func boundsOf(field protoreflect.FieldDescriptor) (textBounds, bool) {
	message := string(field.ContainingMessage().Name())
	switch text := string(field.Name()); {
	case field.Kind() != protoreflect.StringKind:
		return textBounds{}, false
	case text == "org" || text == "project" || text == "domain" || text == "organization":
		return part, true
	case message == "ProjectIdentifier":
		return part, true
	case message == "RunIdentifier" || message == "ActionIdentifier":
		return name, true
	case message == "TriggerName":
		return longName, true
	case message == "TaskIdentifier":
		return anyLength, true
	case text == "parent":
		return parentName, true
	default:
		return textBounds{}, false
	}
}

func (b textBounds) good(path string) []string {
	good := []string{"x", "A-b_c.d e", "ünïcödé"}
	if b.min == 0 && !strings.HasSuffix(path, "parent") {
		good = append(good, "")
	}
	if b.max > 0 {
		// Characters are counted, not bytes.
		good = append(good, strings.Repeat("x", b.max), strings.Repeat("é", b.max))
	}
	return good
}

func (b textBounds) bad() []string {
	bad := []string{"a/b", "/", "a\x00b", "a\nb", "\t", "a\x7fb", "a\u0085b"}
	if b.min > 0 {
		bad = append(bad, "")
	}
	if b.max > 0 {
		bad = append(bad, strings.Repeat("x", b.max+1), strings.Repeat("é", b.max+1))
	}
	return bad
}

// walk visits every field of a message that is set, and those inside it.
func walk(m protoreflect.Message, prefix string, visit func(path string, field protoreflect.FieldDescriptor)) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		path := prefix + string(field.Name())
		visit(path, field)
		switch {
		case field.IsList() && field.Message() != nil:
			walk(value.List().Get(0).Message(), path+"[0].", visit)
		case field.Message() != nil && field.Message().ParentFile().Package() != "google.protobuf":
			walk(value.Message(), path+".", visit)
		}
		return true
	})
}

// changed returns a copy of m with the field at path set to value, or cleared for nil.
func changed(m proto.Message, path string, value any) proto.Message {
	m = proto.Clone(m)
	inner := m.ProtoReflect()
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		name, inList := strings.CutSuffix(name, "[0]")
		field := inner.Descriptor().Fields().ByName(protoreflect.Name(name))
		if inList {
			inner = inner.Mutable(field).List().Get(0).Message()
		} else {
			inner = inner.Mutable(field).Message()
		}
	}
	field := inner.Descriptor().Fields().ByName(protoreflect.Name(names[len(names)-1]))
	if value == nil {
		inner.Clear(field)
	} else {
		inner.Set(field, protoreflect.ValueOf(value))
	}
	return m
}

// TestScopesAndTargets covers the members of the oneofs that rpcs has no example of.
func TestScopesAndTargets(t *testing.T) {
	server := newServer(t, newRepo(t))
	long := strings.Repeat("x", 256)
	ok := strings.Repeat("x", 255)
	trigger := func(name, task string) *workflow.ListRunsRequest_TriggerName {
		return &workflow.ListRunsRequest_TriggerName{TriggerName: &common.TriggerName{
			Org: "org", Project: "proj", Domain: "dev", Name: name, TaskName: task,
		}}
	}
	project := func(name string) *common.ProjectIdentifier {
		return &common.ProjectIdentifier{Organization: "org", Domain: "dev", Name: name}
	}
	lists := map[string]*workflow.ListRunsRequest{
		"":                                 {ScopeBy: trigger(ok, ok)},
		"trigger_name.name":                {ScopeBy: trigger(long, "t")},
		"trigger_name.task_name":           {ScopeBy: trigger("t", "")},
		"scope_by":                         {},
		"project_id.name":                  {ScopeBy: &workflow.ListRunsRequest_ProjectId{ProjectId: project("")}},
		"request.raw_filters":              {ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"}, Request: &common.ListRequest{RawFilters: []string{"x"}}},
		"request.token":                    {ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"}, Request: &common.ListRequest{Token: "x"}},
		"request.filters[0]: field":        {ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"}, Request: &common.ListRequest{Filters: []*common.Filter{{Field: "x"}}}},
		"request.sort_by_fields[0].key":    {ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"}, Request: &common.ListRequest{SortByFields: []*common.Sort{{Key: "x"}}}},
		"request.filters[0]: values[0] of": {ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"}, Request: &common.ListRequest{Filters: []*common.Filter{{Field: "phase", Values: []string{"HAPPY"}}}}},
	}
	for field, request := range lists {
		_, err := server.runs().ListRuns(t.Context(), connect.NewRequest(request))
		if field == "" {
			require.NoError(t, err)
			continue
		}
		requireCode(t, connect.CodeInvalidArgument, err, field)
	}

	watchError := func(request *workflow.WatchRunsRequest) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := server.runs().WatchRuns(ctx, connect.NewRequest(request))
		require.NoError(t, err)
		defer func() { _ = stream.Close() }()
		if stream.Receive() {
			cancel()
			return nil
		}
		return stream.Err()
	}
	require.NoError(t, watchError(&workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_ProjectId{ProjectId: project("proj")}}))
	require.NoError(t, watchError(&workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_TaskId{TaskId: taskID()}}))
	requireCode(t, connect.CodeInvalidArgument, watchError(&workflow.WatchRunsRequest{}), "target")
	requireCode(t, connect.CodeInvalidArgument,
		watchError(&workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_ProjectId{ProjectId: project("a/b")}}), "project_id.name")
	requireCode(t, connect.CodeUnimplemented,
		watchError(&workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_ClusterId{ClusterId: &common.ClusterIdentifier{Name: "c"}}}), "cluster")
}

func TestRecordActionRefusesWhatIsNoAction(t *testing.T) {
	server := newServer(t, newRepo(t))
	for field, change := range map[string]func(*workflow.RecordActionRequest){
		"spec":                    func(r *workflow.RecordActionRequest) { r.Spec = nil },
		"group":                   func(r *workflow.RecordActionRequest) { r.Group = "a\x00" },
		"subject":                 func(r *workflow.RecordActionRequest) { r.Subject = "a\x00" },
		"subject: must be":        func(r *workflow.RecordActionRequest) { r.Subject = strings.Repeat("é", 513) },
		"recovered_from.name":     func(r *workflow.RecordActionRequest) { r.RecoveredFrom = actionID("run", "a/b") },
		"parent: the root action": func(r *workflow.RecordActionRequest) { r.ActionId.Name, r.Parent = "a0", "a1" },
		"its own parent":          func(r *workflow.RecordActionRequest) { r.Parent = r.ActionId.Name },
		"trace.end_time": func(r *workflow.RecordActionRequest) {
			end := at(0)
			end.Nanos = -1
			r.Spec = &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{EndTime: end}}
		},
	} {
		request := recordRequest(actionID("run", "a1"))
		change(request)
		_, err := server.internal().RecordAction(t.Context(), connect.NewRequest(request))
		requireCode(t, connect.CodeInvalidArgument, err, field)
	}
}

// TestInvalidUTF8 sends what no generated client can.
func TestInvalidUTF8(t *testing.T) {
	server := newServer(t, newRepo(t))
	build := func(org string) string {
		run := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), org)
		for field, text := range map[protowire.Number]string{2: "proj", 3: "dev", 4: "run"} {
			run = protowire.AppendString(protowire.AppendTag(run, field, protowire.BytesType), text)
		}
		return string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), run))
	}
	const path = "/flyteidl2.workflow.RunService/ListActions"
	list := func(org string) string {
		// run_id is field 2 of the request.
		return string(protowire.AppendTag(nil, 2, protowire.BytesType)) + build(org)[1:]
	}
	code, body := server.post(t, path, "application/proto", list("org"))
	require.Equal(t, http.StatusOK, code, body)
	code, body = server.post(t, path, "application/proto", list("o\xffg"))
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "invalid_argument")
	require.Contains(t, body, "UTF-8")
}
