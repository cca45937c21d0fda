package models

import (
	"database/sql"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

// ActionEvent is a row of table action_events. The first seven fields are its primary key: the same event reported twice is one row.
// Rows are only ever inserted; both times are the database's.
type ActionEvent struct {
	Project string `gorm:"column:project;primaryKey"`
	Domain  string `gorm:"column:domain;primaryKey"`
	RunName string `gorm:"column:run_name;primaryKey"`
	Name    string `gorm:"column:name;primaryKey"`
	Attempt uint32 `gorm:"column:attempt;primaryKey;autoIncrement:false"`
	Phase   int32  `gorm:"column:phase;primaryKey;autoIncrement:false"`
	Version uint32 `gorm:"column:version;primaryKey;autoIncrement:false"`

	// Info is the serialized workflow.ActionEvent.
	Info []byte `gorm:"column:info"`
	// ErrorKind is the name of the workflow.ErrorInfo_Kind when the event reports an error, else null.
	ErrorKind sql.NullString `gorm:"column:error_kind"`

	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false;default:CURRENT_TIMESTAMP;->"`
	UpdatedAt time.Time `gorm:"column:updated_at;autoUpdateTime:false;default:CURRENT_TIMESTAMP;->"`
}

// TableName tells gorm the table.
func (ActionEvent) TableName() string { return "action_events" }

// NewActionEventModel returns the row of event. Errors: event is nil, a number does not fit its column, or event cannot be serialized.
func NewActionEventModel(event *workflow.ActionEvent) (*ActionEvent, error) {
	if event == nil {
		return nil, fmt.Errorf("event: must be set")
	}
	// The columns are signed, the fields of the message are not.
	if event.GetAttempt() > math.MaxInt32 {
		return nil, fmt.Errorf("event.attempt: %d is above %d", event.GetAttempt(), math.MaxInt32)
	}
	if event.GetVersion() > math.MaxInt32 {
		return nil, fmt.Errorf("event.version: %d is above %d", event.GetVersion(), math.MaxInt32)
	}
	info, err := proto.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("serialize event of action %q: %w", event.GetId().GetName(), err)
	}

	row := &ActionEvent{
		Project: event.GetId().GetRun().GetProject(),
		Domain:  event.GetId().GetRun().GetDomain(),
		RunName: event.GetId().GetRun().GetName(),
		Name:    event.GetId().GetName(),
		Attempt: event.GetAttempt(),
		Phase:   int32(event.GetPhase()),
		Version: event.GetVersion(),
		Info:    info,
	}
	if errorInfo := event.GetErrorInfo(); errorInfo != nil {
		row.ErrorKind = sql.NullString{String: errorInfo.GetKind().String(), Valid: true}
	}
	return row, nil
}

// ToActionEvent returns the event that the row was made from.
func (e *ActionEvent) ToActionEvent() (*workflow.ActionEvent, error) {
	event := &workflow.ActionEvent{}
	if err := proto.Unmarshal(e.Info, event); err != nil {
		return nil, fmt.Errorf("event of action %q, attempt %d, phase %d, version %d: %w", e.Name, e.Attempt, e.Phase, e.Version, err)
	}
	return event, nil
}
