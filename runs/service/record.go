package service

import (
	"cmp"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// rootActionName is the name of the root action of every run.
const rootActionName = "a0"

// newAction returns the row for a request. The whole request goes into action_spec, so that nothing that a client sent is lost.
// Errors are the client's.
func newAction(request *workflow.RecordActionRequest) (*models.Action, error) {
	row := models.NewActionModel(request.GetActionId())
	parent, err := parentOf(request)
	if err != nil {
		return nil, err
	}
	row.ParentActionName = nullable(parent)
	row.ActionGroup = nullable(request.GetGroup())
	if subject := request.GetSubject(); subject != "" {
		row.CreatedBySubject = nullable(subject)
		if row.CreatedBy, err = proto.Marshal(userIdentity(subject)); err != nil {
			return nil, fmt.Errorf("serialize subject: %w", err)
		}
	}
	if row.ActionSpec, err = proto.Marshal(request); err != nil {
		return nil, fmt.Errorf("serialize request: %w", err)
	}
	switch spec := request.GetSpec().(type) {
	case *workflow.RecordActionRequest_Task:
		setTask(row, spec.Task)
	case *workflow.RecordActionRequest_Trace:
		return row, setTrace(row, spec.Trace)
	case *workflow.RecordActionRequest_Condition:
		row.ActionType = int32(workflow.ActionType_ACTION_TYPE_CONDITION)
		if timeout := spec.Condition.GetTimeout(); timeout != nil {
			if err := timeout.CheckValid(); err != nil {
				return nil, invalidArgument("condition.timeout: must lie within 10,000 years either way: %w", err)
			}
		}
	}
	return row, nil
}

// parentOf returns the parent's name; only the root action has none, and an action that names none descends from the root.
func parentOf(request *workflow.RecordActionRequest) (string, error) {
	isRoot := request.GetActionId().GetName() == rootActionName
	switch parent := request.GetParent(); {
	case isRoot && parent != "":
		return "", invalidArgument("parent: the root action %s has none", rootActionName)
	case !isRoot && parent == request.GetActionId().GetName():
		return "", invalidArgument("parent: an action is not its own parent")
	case !isRoot && parent == "":
		return rootActionName, nil
	default:
		return parent, nil
	}
}

func setTask(row *models.Action, spec *workflow.TaskAction) {
	row.ActionType = int32(workflow.ActionType_ACTION_TYPE_TASK)
	id := spec.GetId()
	if id == nil {
		return
	}
	row.TaskProject = nullable(id.GetProject())
	row.TaskDomain = nullable(id.GetDomain())
	row.TaskName = nullable(id.GetName())
	row.TaskVersion = nullable(id.GetVersion())
	// A task is named environment.function.
	environment, function, qualified := cutLast(id.GetName(), ".")
	if !qualified {
		function = id.GetName()
	}
	row.EnvironmentName = nullable(environment)
	row.FunctionName = function
	row.TaskShortName = nullable(function)
}

// setTrace also sets where the action stands: a trace is reported when it is over. Of one that says when it ended and not when it began,
// the end is the only time known.
func setTrace(row *models.Action, spec *workflow.TraceAction) error {
	row.ActionType = int32(workflow.ActionType_ACTION_TYPE_TRACE)
	start, err := checkedTime("trace.start_time", spec.GetStartTime())
	if err != nil {
		return err
	}
	end, err := checkedTime("trace.end_time", spec.GetEndTime())
	if err != nil {
		return err
	}
	if spec.GetPhase() != common.ActionPhase_ACTION_PHASE_UNSPECIFIED {
		row.Phase = int32(spec.GetPhase())
	}
	if start = cmp.Or(start, end); start == nil {
		return nil
	}
	row.CreatedAt = *start
	if end != nil {
		ended := *end
		if ended.Before(*start) {
			ended = *start
		}
		row.EndedAt = sql.NullTime{Time: ended, Valid: true}
		row.DurationMs = sql.NullInt64{Int64: millisecondsBetween(*start, ended), Valid: true}
	}
	return nil
}

// millisecondsBetween counts as the database does, which keeps microseconds. A time.Duration has no room for three centuries.
func millisecondsBetween(from, to time.Time) int64 {
	return (to.UnixMicro() - from.UnixMicro()) / 1000
}

// newEvents returns the rows for events. Errors are the client's and name the event's index.
func newEvents(events []*workflow.ActionEvent) ([]*models.ActionEvent, error) {
	rows := make([]*models.ActionEvent, len(events))
	for i, event := range events {
		row, err := newEvent(fmt.Sprintf("events[%d]", i), event)
		if err != nil {
			return nil, err
		}
		rows[i] = row
	}
	return rows, nil
}

// newEvent returns the row for the event in a request's field. All its times are looked at, since it is kept whole, and one that is no time
// would make it unreadable as JSON.
func newEvent(field string, event *workflow.ActionEvent) (*models.ActionEvent, error) {
	for _, at := range []struct {
		name string
		time *timestamppb.Timestamp
	}{
		{"start_time", event.GetStartTime()},
		{"updated_time", event.GetUpdatedTime()},
		{"end_time", event.GetEndTime()},
		{"reported_time", event.GetReportedTime()},
	} {
		if _, err := checkedTime(field+"."+at.name, at.time); err != nil {
			return nil, err
		}
	}
	for i, happened := range event.GetClusterEvents() {
		if _, err := checkedTime(fmt.Sprintf("%s.cluster_events[%d].occurred_at", field, i), happened.GetOccurredAt()); err != nil {
			return nil, err
		}
	}
	row, err := models.NewActionEventModel(event)
	if err != nil {
		return nil, invalidArgument("%s: %w", field, err)
	}
	return row, nil
}

// checkedTime returns nil for a time that is not given. The wire type can hold numbers that are no time.
func checkedTime(field string, at *timestamppb.Timestamp) (*time.Time, error) {
	if at == nil {
		return nil, nil
	}
	if err := at.CheckValid(); err != nil {
		return nil, invalidArgument("%s: must lie within the years 1 to 9999: %w", field, err)
	}
	return timeOf(given(at)), nil
}

// given returns nil for a time that is not given, which Go's zero time says as well: a client that serializes it means no year 1.
func given(at *timestamppb.Timestamp) *timestamppb.Timestamp {
	if at == nil || at.AsTime().IsZero() {
		return nil
	}
	return at
}

func nullable(text string) sql.NullString {
	return sql.NullString{String: text, Valid: text != ""}
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+len(separator):], true
}
