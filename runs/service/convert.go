package service

import (
	"database/sql"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/task"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// The rows do not hold the organization; org, in the functions below, is the one that the client asked under.

func actionOf(org string, row *models.Action) *workflow.Action {
	return &workflow.Action{
		Id:       identifierOf(org, row),
		Metadata: metadataOf(org, row, recordedRequest(row)),
		Status:   statusOf(row),
	}
}

func runOf(org string, row *models.Run) *workflow.Run {
	return &workflow.Run{Action: actionOf(org, row)}
}

func identifierOf(org string, row *models.Action) *common.ActionIdentifier {
	return &common.ActionIdentifier{
		Run:  &common.RunIdentifier{Org: org, Project: row.Project, Domain: row.Domain, Name: row.RunName},
		Name: row.Name,
	}
}

func statusOf(row *models.Action) *workflow.ActionStatus {
	status := &workflow.ActionStatus{
		Phase:       common.ActionPhase(row.Phase),
		StartTime:   timestamppb.New(row.CreatedAt),
		EndTime:     timestampOf(row.EndedAt),
		Attempts:    row.Attempts,
		CacheStatus: row.CacheStatus,
	}
	if row.DurationMs.Valid && row.DurationMs.Int64 >= 0 {
		status.DurationMs = proto.Uint64(uint64(row.DurationMs.Int64))
	}
	return status
}

func metadataOf(org string, row *models.Action, recorded *workflow.RecordActionRequest) *workflow.ActionMetadata {
	metadata := &workflow.ActionMetadata{
		Parent:          row.ParentActionName.String,
		Group:           row.ActionGroup.String,
		ExecutedBy:      executedBy(row),
		ActionType:      workflow.ActionType(row.ActionType),
		TriggerId:       triggerOf(org, row),
		EnvironmentName: row.EnvironmentName.String,
		FuntionName:     row.FunctionName,
		TriggerName:     row.TriggerName.String,
		Source:          workflow.RunSource(workflow.RunSource_value[row.RunSource]),
		RecoveredFrom:   recorded.GetRecoveredFrom(),
	}
	switch metadata.ActionType {
	case workflow.ActionType_ACTION_TYPE_TASK:
		metadata.Spec = &workflow.ActionMetadata_Task{Task: &workflow.TaskActionMetadata{
			Id:        taskOf(org, row),
			TaskType:  row.TaskType,
			ShortName: row.TaskShortName.String,
		}}
	case workflow.ActionType_ACTION_TYPE_TRACE:
		metadata.Spec = &workflow.ActionMetadata_Trace{Trace: &workflow.TraceActionMetadata{
			Name: recorded.GetTrace().GetName(),
		}}
	case workflow.ActionType_ACTION_TYPE_CONDITION:
		metadata.Spec = &workflow.ActionMetadata_Condition{Condition: &workflow.ConditionActionMetadata{
			Name: recorded.GetCondition().GetName(),
		}}
	}
	return metadata
}

func taskOf(org string, row *models.Action) *task.TaskIdentifier {
	if !row.TaskName.Valid {
		return nil
	}
	return &task.TaskIdentifier{
		Org:     org,
		Project: row.TaskProject.String,
		Domain:  row.TaskDomain.String,
		Name:    row.TaskName.String,
		Version: row.TaskVersion.String,
	}
}

func triggerOf(org string, row *models.Action) *common.TriggerIdentifier {
	if !row.TriggerName.Valid {
		return nil
	}
	return &common.TriggerIdentifier{
		Name: &common.TriggerName{
			Org:      org,
			Project:  row.Project,
			Domain:   row.Domain,
			Name:     row.TriggerName.String,
			TaskName: row.TriggerTaskName.String,
		},
		Revision: uint64(max(0, row.TriggerRevision.Int64)),
	}
}

func executedBy(row *models.Action) *common.EnrichedIdentity {
	if len(row.CreatedBy) > 0 {
		var identity common.EnrichedIdentity
		if proto.Unmarshal(row.CreatedBy, &identity) == nil {
			return &identity
		}
	}
	if row.CreatedBySubject.Valid {
		return userIdentity(row.CreatedBySubject.String)
	}
	return nil
}

func userIdentity(subject string) *common.EnrichedIdentity {
	return &common.EnrichedIdentity{Principal: &common.EnrichedIdentity_User{
		User: &common.User{Id: &common.UserIdentifier{Subject: subject}},
	}}
}

// recordedRequest returns the request that made the row, or nil when the row was made otherwise. It is read only for what has no
// column of its own.
func recordedRequest(row *models.Action) *workflow.RecordActionRequest {
	if len(row.ActionSpec) == 0 {
		return nil
	}
	var request workflow.RecordActionRequest
	if proto.Unmarshal(row.ActionSpec, &request) != nil {
		return nil
	}
	return &request
}

func timestampOf(at sql.NullTime) *timestamppb.Timestamp {
	if !at.Valid {
		return nil
	}
	return timestamppb.New(at.Time)
}

// timeOf returns nil for a time that is not given.
func timeOf(at *timestamppb.Timestamp) *time.Time {
	if at == nil {
		return nil
	}
	t := at.AsTime()
	return &t
}
