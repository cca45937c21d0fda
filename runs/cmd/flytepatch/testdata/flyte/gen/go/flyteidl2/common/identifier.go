// Package common stands where the generated flyteidl2/common is: plain structs with the accessors that the repository uses.
package common

// RunIdentifier names a run.
type RunIdentifier struct {
	Org, Project, Domain, Name string
}

func (x *RunIdentifier) GetProject() string { return x.Project }
func (x *RunIdentifier) GetDomain() string  { return x.Domain }
func (x *RunIdentifier) GetName() string    { return x.Name }

// ActionIdentifier names an action of a run.
type ActionIdentifier struct {
	Run  *RunIdentifier
	Name string
}

func (x *ActionIdentifier) GetRun() *RunIdentifier { return x.Run }
func (x *ActionIdentifier) GetName() string        { return x.Name }

// ActionPhase is where an action stands.
type ActionPhase int32

const (
	ActionPhase_ACTION_PHASE_QUEUED    ActionPhase = 1
	ActionPhase_ACTION_PHASE_RUNNING   ActionPhase = 4
	ActionPhase_ACTION_PHASE_SUCCEEDED ActionPhase = 5
	ActionPhase_ACTION_PHASE_ABORTED   ActionPhase = 7
)
