package interfaces

import (
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/task"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// The filters below are what the service asks for by itself, as against what a caller filters by.

// RunScope lets through the actions of one run.
func RunScope(run *common.RunIdentifier) Filter {
	return Filter{query: "project = ? AND domain = ? AND run_name = ?", args: []any{run.GetProject(), run.GetDomain(), run.GetName()}}
}

// ProjectScope lets through what belongs to one project and domain.
func ProjectScope(project *common.ProjectIdentifier) Filter {
	return Filter{query: "project = ? AND domain = ?", args: []any{project.GetName(), project.GetDomain()}}
}

// TriggerScope lets through the runs that one trigger started.
func TriggerScope(trigger *common.TriggerName) Filter {
	return Filter{
		query: "project = ? AND domain = ? AND trigger_name = ? AND trigger_task_name = ?",
		args:  []any{trigger.GetProject(), trigger.GetDomain(), trigger.GetName(), trigger.GetTaskName()},
	}
}

// TaskScope lets through the actions that execute one version of a task.
func TaskScope(id *task.TaskIdentifier) Filter {
	return Filter{
		query: "task_project = ? AND task_domain = ? AND task_name = ? AND task_version = ?",
		args:  []any{id.GetProject(), id.GetDomain(), id.GetName(), id.GetVersion()},
	}
}

// RootActions lets through runs, that is, actions without a parent.
func RootActions() Filter { return Filter{query: "parent_action_name IS NULL"} }

// HasPausedAction lets through what belongs to a run of which at least one action is paused.
func HasPausedAction() Filter {
	// The phase is written out, not bound: only then can the planner match it with the partial index.
	return Filter{query: "(project, domain, run_name) IN (SELECT project, domain, run_name FROM actions WHERE phase = 9)"}
}

// OlderThan lets through what comes after row in the order NewestFirst: the next page, when row is the last of one. A row that is there
// throughout is in some page, since created_at moves only back, which is to say ahead of the reader; a row that moves may be in two.
func OlderThan(row *models.Action) Filter {
	return Filter{
		query: "(created_at, project, domain, run_name, name) < (?, ?, ?, ?, ?)",
		args:  []any{row.CreatedAt, row.Project, row.Domain, row.RunName, row.Name},
	}
}
