// Package models holds the rows of the runs service's tables as Go types, and their conversion from and to messages.
package models

import (
	"database/sql"
	"time"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
)

// Run is an action seen as the run that it is the root of: ParentActionName is null.
type Run = Action

// Action is a row of table actions. The first four fields are its primary key.
//
// Numbers of enums are kept as they are on the wire (common.ActionPhase, workflow.ActionType, core.CatalogCacheStatus).
// UpdatedAt is read only: every write leaves it to the database's clock, so that rows written by several replicas can be
// compared with each other, which a sweep for missed changes relies on.
type Action struct {
	Project string `gorm:"column:project;primaryKey"`
	Domain  string `gorm:"column:domain;primaryKey"`
	RunName string `gorm:"column:run_name;primaryKey"`
	Name    string `gorm:"column:name;primaryKey"`

	// ParentActionName is null for the root action.
	ParentActionName sql.NullString `gorm:"column:parent_action_name"`

	Phase      int32  `gorm:"column:phase"`
	RunSource  string `gorm:"column:run_source"`
	ActionType int32  `gorm:"column:action_type"`

	ActionGroup sql.NullString `gorm:"column:action_group"`

	TaskProject     sql.NullString `gorm:"column:task_project"`
	TaskDomain      sql.NullString `gorm:"column:task_domain"`
	TaskName        sql.NullString `gorm:"column:task_name"`
	TaskVersion     sql.NullString `gorm:"column:task_version"`
	TaskType        string         `gorm:"column:task_type"`
	TaskShortName   sql.NullString `gorm:"column:task_short_name"`
	FunctionName    string         `gorm:"column:function_name"`
	EnvironmentName sql.NullString `gorm:"column:environment_name"`

	// ActionSpec, DetailedInfo and RunSpec are serialized messages; ActionDetails is the state of the action's executor, as JSON.
	ActionSpec    []byte `gorm:"column:action_spec"`
	ActionDetails []byte `gorm:"column:action_details"`
	DetailedInfo  []byte `gorm:"column:detailed_info"`
	RunSpec       []byte `gorm:"column:run_spec"`

	AbortRequestedAt  sql.NullTime   `gorm:"column:abort_requested_at"`
	AbortAttemptCount int32          `gorm:"column:abort_attempt_count"`
	AbortReason       sql.NullString `gorm:"column:abort_reason"`

	// CreatedAt left zero is set by the database. It moves back when an earlier start becomes known.
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false;default:CURRENT_TIMESTAMP"`
	UpdatedAt time.Time `gorm:"column:updated_at;autoUpdateTime:false;default:CURRENT_TIMESTAMP;->"`

	EndedAt sql.NullTime `gorm:"column:ended_at"`
	// DurationMs is EndedAt minus CreatedAt in whole milliseconds.
	DurationMs sql.NullInt64 `gorm:"column:duration_ms"`

	Attempts    uint32                  `gorm:"column:attempts"`
	CacheStatus core.CatalogCacheStatus `gorm:"column:cache_status"`

	TriggerName     sql.NullString `gorm:"column:trigger_name"`
	TriggerTaskName sql.NullString `gorm:"column:trigger_task_name"`
	TriggerRevision sql.NullInt64  `gorm:"column:trigger_revision"`

	// CreatedBy is the serialized common.EnrichedIdentity of the caller, CreatedBySubject its subject.
	CreatedBy        []byte         `gorm:"column:created_by"`
	CreatedBySubject sql.NullString `gorm:"column:created_by_subject"`
}

// TableName tells gorm the table, which does not follow from the type's name when the alias Run is used.
func (Action) TableName() string { return "actions" }

// NewActionModel returns the row of a new action: id's key, phase QUEUED, everything else empty.
func NewActionModel(id *common.ActionIdentifier) *Action {
	return &Action{
		Project: id.GetRun().GetProject(),
		Domain:  id.GetRun().GetDomain(),
		RunName: id.GetRun().GetName(),
		Name:    id.GetName(),
		Phase:   int32(common.ActionPhase_ACTION_PHASE_QUEUED),
	}
}
