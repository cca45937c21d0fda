package service

import (
	"database/sql"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// roundTrip records an action over the wire and reads it back.
func roundTrip(t *testing.T, server *testServer, request *workflow.RecordActionRequest) *workflow.ActionDetails {
	t.Helper()
	recorded, err := server.internal().RecordAction(t.Context(), connect.NewRequest(request))
	require.NoError(t, err)
	require.Zero(t, recorded.Msg.GetStatus().GetCode(), recorded.Msg.GetStatus().GetMessage())
	read, err := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: request.GetActionId()}))
	require.NoError(t, err)
	return read.Msg.GetDetails()
}

func TestTaskComesBackAsItWasRecorded(t *testing.T) {
	server := newServer(t, newRepo(t))
	request := recordRequest(actionID("run", "a1"))
	request.Group, request.Subject, request.InputUri = "g", "auth|me/you", "s3://bucket/in"
	request.RecoveredFrom = actionID("earlier", "a1")
	got := roundTrip(t, server, request)

	assert.True(t, proto.Equal(request.GetActionId(), got.GetId()))
	assert.Equal(t, queued, got.GetStatus().GetPhase())
	assert.Nil(t, got.GetStatus().DurationMs)
	assert.WithinDuration(t, time.Now(), got.GetStatus().GetStartTime().AsTime(), time.Hour)
	want := &workflow.ActionMetadata{
		Parent: "a0", Group: "g", ExecutedBy: userIdentity("auth|me/you"), ActionType: workflow.ActionType_ACTION_TYPE_TASK,
		Spec:            &workflow.ActionMetadata_Task{Task: &workflow.TaskActionMetadata{Id: taskID(), ShortName: "fn"}},
		EnvironmentName: "env", FuntionName: "fn", RecoveredFrom: request.GetRecoveredFrom(),
	}
	assert.True(t, proto.Equal(want, got.GetMetadata()), "want %v\ngot  %v", want, got.GetMetadata())

	// Recorded again, differently: what is there stays.
	request.Group = "other"
	assert.Equal(t, "g", roundTrip(t, server, request).GetMetadata().GetGroup())
}

func TestActionWithoutParentDescendsFromTheRoot(t *testing.T) {
	server := newServer(t, newRepo(t))
	request := recordRequest(actionID("run", "a1"))
	request.Parent = ""
	assert.Equal(t, "a0", roundTrip(t, server, request).GetMetadata().GetParent())
	assert.Empty(t, roundTrip(t, server, recordRequest(actionID("run", "a0"))).GetMetadata().GetParent())
}

func TestTraceComesBackEnded(t *testing.T) {
	server := newServer(t, newRepo(t))
	request := recordRequest(actionID("run", "t1"))
	request.Spec = &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{
		Name: "step", Phase: succeeded, StartTime: at(1), EndTime: at(3),
	}}
	got := roundTrip(t, server, request)
	assert.Equal(t, "step", got.GetMetadata().GetTrace().GetName())
	assert.Equal(t, workflow.ActionType_ACTION_TYPE_TRACE, got.GetMetadata().GetActionType())
	assert.Equal(t, succeeded, got.GetStatus().GetPhase())
	assert.Equal(t, at(1).AsTime(), got.GetStatus().GetStartTime().AsTime())
	assert.Equal(t, at(3).AsTime(), got.GetStatus().GetEndTime().AsTime())
	assert.EqualValues(t, 2000, got.GetStatus().GetDurationMs())

	// An end before the start is the start.
	request = recordRequest(actionID("run", "t2"))
	request.Spec = &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{Phase: failed, StartTime: at(3), EndTime: at(1)}}
	got = roundTrip(t, server, request)
	assert.Equal(t, at(3).AsTime(), got.GetStatus().GetEndTime().AsTime())
	assert.EqualValues(t, 0, got.GetStatus().GetDurationMs())
	assert.NotNil(t, got.GetStatus().DurationMs)
}

func TestConditionComesBackWhole(t *testing.T) {
	server := newServer(t, newRepo(t))
	condition := &workflow.ConditionAction{Name: "ask", Prompt: "go on?", Description: "…", Timeout: durationpb.New(time.Minute)}
	request := recordRequest(actionID("run", "c1"))
	request.Spec = &workflow.RecordActionRequest_Condition{Condition: condition}
	got := roundTrip(t, server, request)
	assert.Equal(t, "ask", got.GetMetadata().GetCondition().GetName())
	assert.True(t, proto.Equal(condition, got.GetCondition()))
}

func TestStatusComesBackAsItWasUpdated(t *testing.T) {
	server := newServer(t, newRepo(t))
	id := actionID("run", "a1")
	roundTrip(t, server, recordRequest(id))
	update := func(request *workflow.UpdateActionStatusRequest) *workflow.ActionDetails {
		t.Helper()
		response, err := server.internal().UpdateActionStatus(t.Context(), connect.NewRequest(request))
		require.NoError(t, err)
		require.Zero(t, response.Msg.GetStatus().GetCode(), response.Msg.GetStatus().GetMessage())
		read, err := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
		require.NoError(t, err)
		return read.Msg.GetDetails()
	}
	got := update(&workflow.UpdateActionStatusRequest{ActionId: id, Status: &workflow.ActionStatus{
		Phase: running, StartTime: at(0), Attempts: 2, CacheStatus: core.CatalogCacheStatus_CACHE_MISS,
	}}).GetStatus()
	assert.Equal(t, running, got.GetPhase())
	assert.Equal(t, at(0).AsTime(), got.GetStartTime().AsTime())
	assert.EqualValues(t, 2, got.GetAttempts())
	assert.Equal(t, core.CatalogCacheStatus_CACHE_MISS, got.GetCacheStatus())
	assert.Nil(t, got.GetEndTime())

	// A phase that lies behind is a success that changes nothing.
	assert.Equal(t, running, update(statusRequest(id, queued)).GetStatus().GetPhase())

	details := update(&workflow.UpdateActionStatusRequest{
		ActionId: id, Status: &workflow.ActionStatus{Phase: aborted, EndTime: at(5), Attempts: 2},
		AbortReason: proto.String("no more"), Principal: userIdentity("me"),
	})
	assert.Equal(t, aborted, details.GetStatus().GetPhase())
	assert.Equal(t, at(5).AsTime(), details.GetStatus().GetEndTime().AsTime())
	assert.EqualValues(t, 5000, details.GetStatus().GetDurationMs())
	assert.Equal(t, "no more", details.GetAbortInfo().GetReason())

	// An action that nobody recorded: no error either.
	response, err := server.internal().UpdateActionStatus(t.Context(), connect.NewRequest(statusRequest(actionID("run", "nobody"), running)))
	require.NoError(t, err)
	assert.Zero(t, response.Msg.GetStatus().GetCode())
	_, err = server.runs().AbortAction(t.Context(), connect.NewRequest(&workflow.AbortActionRequest{ActionId: actionID("run", "nobody")}))
	requireCode(t, connect.CodeNotFound, err, "nobody")
	_, err = server.runs().AbortRun(t.Context(), connect.NewRequest(&workflow.AbortRunRequest{RunId: runID("nobody")}))
	requireCode(t, connect.CodeNotFound, err, "nobody")
}

func TestFailureComesFromTheLastAttempt(t *testing.T) {
	repo := newRepo(t)
	server := newServer(t, repo)
	id := actionID("run", "a1")
	create(t, repo, id)
	setPhase(t, repo, id, failed)
	first, last := eventOf(id, 1, failed, 1), eventOf(id, 2, failed, 2)
	first.ErrorInfo, last.ErrorInfo = &workflow.ErrorInfo{Message: "first"}, &workflow.ErrorInfo{Message: "last"}
	insertEvents(t, repo, first, last)
	read, err := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
	require.NoError(t, err)
	assert.Equal(t, "last", read.Msg.GetDetails().GetErrorInfo().GetMessage())
}

// TestRowsThatWereMadeOtherwise converts what other programs may have put into the table.
func TestRowsThatWereMadeOtherwise(t *testing.T) {
	row := models.NewActionModel(actionID("run", "a0"))
	row.ActionSpec, row.CreatedBy = []byte{0xff}, []byte{0xff}
	row.RunSource = "RUN_SOURCE_CLI"
	row.TriggerName, row.TriggerTaskName = nullable("nightly"), nullable("env.fn")
	row.TriggerRevision = sql.NullInt64{Int64: 3, Valid: true}
	row.ActionType = int32(workflow.ActionType_ACTION_TYPE_TASK)
	row.DurationMs = sql.NullInt64{Int64: -5, Valid: true}
	row.CreatedBySubject = nullable("me")
	got := actionOf("org", row)
	assert.Equal(t, workflow.RunSource_RUN_SOURCE_CLI, got.GetMetadata().GetSource())
	assert.True(t, proto.Equal(&common.TriggerIdentifier{
		Name:     &common.TriggerName{Org: "org", Project: "proj", Domain: "dev", Name: "nightly", TaskName: "env.fn"},
		Revision: 3,
	}, got.GetMetadata().GetTriggerId()))
	assert.Equal(t, "nightly", got.GetMetadata().GetTriggerName())
	assert.Nil(t, got.GetMetadata().GetTask().GetId())
	assert.Nil(t, got.GetStatus().DurationMs)
	assert.True(t, proto.Equal(userIdentity("me"), got.GetMetadata().GetExecutedBy()))
}
