package service

import (
	"errors"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/task"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// runScope says whose runs a client asks for: as a filter for the database, and as a test on one row.
type runScope struct {
	// org is the organization that the client asks under.
	org     string
	filter  interfaces.Filter
	matches func(*models.Run) bool
}

// runScopeOf returns the scope of a list. An organization's runs are all runs: rows do not hold the organization.
func runScopeOf(request *workflow.ListRunsRequest) runScope {
	switch scope := request.GetScopeBy().(type) {
	case *workflow.ListRunsRequest_ProjectId:
		return runScope{org: scope.ProjectId.GetOrganization(), filter: interfaces.ProjectScope(scope.ProjectId)}
	case *workflow.ListRunsRequest_TriggerName:
		return runScope{org: scope.TriggerName.GetOrg(), filter: interfaces.TriggerScope(scope.TriggerName)}
	case *workflow.ListRunsRequest_TaskId:
		return runScope{org: scope.TaskId.GetOrg(), filter: interfaces.TaskScope(scope.TaskId)}
	default:
		return runScope{org: request.GetOrg()}
	}
}

// watchScopeOf returns the scope of a watch.
func watchScopeOf(request *workflow.WatchRunsRequest) (runScope, error) {
	switch target := request.GetTarget().(type) {
	case *workflow.WatchRunsRequest_ProjectId:
		id := target.ProjectId
		return runScope{
			org:    id.GetOrganization(),
			filter: interfaces.ProjectScope(id),
			matches: func(run *models.Run) bool {
				return run.Project == id.GetName() && run.Domain == id.GetDomain()
			},
		}, nil
	case *workflow.WatchRunsRequest_TaskId:
		return runScope{
			org:     target.TaskId.GetOrg(),
			filter:  interfaces.TaskScope(target.TaskId),
			matches: func(run *models.Run) bool { return executes(run, target.TaskId) },
		}, nil
	case *workflow.WatchRunsRequest_ClusterId:
		return runScope{}, connect.NewError(connect.CodeUnimplemented, errors.New("target.cluster_id: where a run executes is not known here"))
	default:
		return runScope{org: request.GetOrg(), matches: func(*models.Run) bool { return true }}, nil
	}
}

func executes(run *models.Run, id *task.TaskIdentifier) bool {
	return run.TaskProject.String == id.GetProject() && run.TaskDomain.String == id.GetDomain() &&
		run.TaskName.String == id.GetName() && run.TaskVersion.String == id.GetVersion()
}
