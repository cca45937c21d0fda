package service

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

var (
	firstTime = &timestamppb.Timestamp{Seconds: -62135596800, Nanos: 1000} // a microsecond after Go's zero time
	lastTime  = &timestamppb.Timestamp{Seconds: 253402300799, Nanos: 999_999_999}
	zeroTime  = timestamppb.New(time.Time{})
)

// TestTimesInAllCombinations records traces and updates statuses, and compares with the rules as arithmetic.
func TestTimesInAllCombinations(t *testing.T) {
	server := newServer(t, newRepo(t))
	moments := map[string]*timestamppb.Timestamp{
		"none": nil, "zero": zeroTime, "first": firstTime, "past": at(-90), "later": {Seconds: at(1).Seconds, Nanos: 999_999_999}, "last": lastTime,
	}
	for startName, start := range moments {
		for endName, end := range moments {
			name := startName + " to " + endName
			micros := func(at *timestamppb.Timestamp) (int64, bool) {
				if at = given(at); at == nil {
					return 0, false
				}
				return at.AsTime().UnixMicro(), true
			}
			startAt, hasStart := micros(start)
			endAt, hasEnd := micros(end)

			request := recordRequest(actionID("trace", name))
			request.Spec = &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{Phase: succeeded, StartTime: start, EndTime: end}}
			got := roundTrip(t, server, request).GetStatus()
			if !hasStart && hasEnd {
				startAt, hasStart = endAt, true
			}
			check := func(what string) {
				t.Helper()
				assert.Equal(t, hasEnd, got.GetEndTime() != nil, what)
				assert.Equal(t, hasEnd, got.DurationMs != nil, what)
				if hasStart {
					assert.Equal(t, startAt, got.GetStartTime().AsTime().UnixMicro(), what)
				}
				if hasEnd {
					assert.Equal(t, max(startAt, endAt), got.GetEndTime().AsTime().UnixMicro(), what)
					assert.EqualValues(t, max(0, endAt-startAt)/1000, got.GetDurationMs(), what)
				}
			}
			check("trace " + name)
			if !hasStart {
				assert.WithinDuration(t, time.Now(), got.GetStartTime().AsTime(), time.Hour, "trace %s", name)
			}

			// The status of an action that was recorded at a known time.
			id := actionID("status", name)
			request = recordRequest(id)
			request.Spec = &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{StartTime: at(0)}}
			roundTrip(t, server, request)
			update := statusRequest(id, succeeded)
			update.Status.StartTime, update.Status.EndTime = start, end
			response, err := server.internal().UpdateActionStatus(t.Context(), connect.NewRequest(update))
			require.NoError(t, err)
			require.Zero(t, response.Msg.GetStatus().GetCode(), response.Msg.GetStatus().GetMessage())
			read, err := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
			require.NoError(t, err)
			got = read.Msg.GetDetails().GetStatus()
			startAt, hasStart = micros(start)
			if created := testTime.UnixMicro(); !hasStart || startAt > created {
				startAt, hasStart = created, true
			}
			check("status " + name)

			// And whatever was taken can be told, as JSON too, which is stricter.
			for _, id := range []string{"trace", "status"} {
				code, body := server.post(t, "/flyteidl2.workflow.RunService/GetActionDetails", "application/json", fmt.Sprintf(
					`{"actionId":{"run":{"org":"org","project":"proj","domain":"dev","name":%q},"name":%q}}`, id, name))
				assert.Equal(t, http.StatusOK, code, body)
			}
		}
	}
}

// TestGosZeroTimeIsNoTime covers what is put together from events; the rest is above.
func TestGosZeroTimeIsNoTime(t *testing.T) {
	event := eventOf(actionID("r", "a1"), 1, succeeded, 5)
	event.StartTime, event.EndTime = zeroTime, zeroTime
	attempts := attemptsOf([]*workflow.ActionEvent{event})
	require.Len(t, attempts, 1)
	assert.Equal(t, at(5).AsTime(), attempts[0].GetStartTime().AsTime())
	assert.Equal(t, at(5).AsTime(), attempts[0].GetEndTime().AsTime())
}

// TestTimesOutOfBoundsAreRefusedByName sends, in every field that holds a time and is kept, what the type has numbers for and the calendar
// has not. A client of JSON cannot write such a thing, and could not be told of it either.
func TestTimesOutOfBoundsAreRefusedByName(t *testing.T) {
	server := newServer(t, newRepo(t))
	id := actionID("r", "a1")
	event := func(change func(*workflow.ActionEvent)) *workflow.ActionEvent {
		e := eventOf(id, 1, running, 0)
		change(e)
		return e
	}
	record := func(change func(*workflow.RecordActionRequest)) error {
		request := recordRequest(id)
		change(request)
		_, err := server.internal().RecordAction(t.Context(), connect.NewRequest(request))
		return err
	}
	trace := func(trace *workflow.TraceAction) error {
		return record(func(r *workflow.RecordActionRequest) { r.Spec = &workflow.RecordActionRequest_Trace{Trace: trace} })
	}
	status := func(change func(*workflow.ActionStatus)) error {
		request := statusRequest(id, running)
		change(request.Status)
		_, err := server.internal().UpdateActionStatus(t.Context(), connect.NewRequest(request))
		return err
	}
	report := func(change func(*workflow.ActionEvent)) error {
		_, err := server.events().Record(t.Context(), connect.NewRequest(&workflow.RecordRequest{Events: []*workflow.ActionEvent{
			event(func(*workflow.ActionEvent) {}), event(change),
		}}))
		return err
	}
	for what, bad := range map[string]*timestamppb.Timestamp{
		"the year 0":            {Seconds: firstTime.Seconds - 1},
		"the year 10000":        {Seconds: lastTime.Seconds + 1},
		"negative nanoseconds":  {Nanos: -1},
		"too many nanoseconds":  {Nanos: 1_000_000_000},
		"as early as it can be": {Seconds: math.MinInt64, Nanos: math.MinInt32},
		"as late as it can be":  {Seconds: math.MaxInt64, Nanos: math.MaxInt32},
	} {
		for field, err := range map[string]error{
			"trace.start_time":       trace(&workflow.TraceAction{StartTime: bad}),
			"trace.end_time":         trace(&workflow.TraceAction{EndTime: bad}),
			"status.start_time":      status(func(s *workflow.ActionStatus) { s.StartTime = bad }),
			"status.end_time":        status(func(s *workflow.ActionStatus) { s.EndTime = bad }),
			"events[1].start_time":   report(func(e *workflow.ActionEvent) { e.StartTime = bad }),
			"events[1].updated_time": report(func(e *workflow.ActionEvent) { e.UpdatedTime = bad }),
			"events[1].end_time":     report(func(e *workflow.ActionEvent) { e.EndTime = bad }),
			"events[1].reported_time": report(func(e *workflow.ActionEvent) {
				e.ReportedTime = bad
			}),
			"events[1].cluster_events[1].occurred_at": report(func(e *workflow.ActionEvent) {
				e.ClusterEvents = []*workflow.ClusterEvent{{}, {OccurredAt: bad}}
			}),
		} {
			require.Error(t, err, "%s: %s", field, what)
			requireCode(t, connect.CodeInvalidArgument, err, field+": must lie within the years 1 to 9999")
		}
	}
	requireCode(t, connect.CodeInvalidArgument, record(func(r *workflow.RecordActionRequest) {
		r.Spec = &workflow.RecordActionRequest_Condition{Condition: &workflow.ConditionAction{Timeout: &durationpb.Duration{Seconds: math.MaxInt64}}}
	}), "condition.timeout: must lie within 10,000 years")
}
