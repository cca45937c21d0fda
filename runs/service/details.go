package service

import (
	"context"
	"fmt"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// maxEvents bounds the events that details are put together from. It is far above what an action reports, and there for the one that
// reports without end.
const maxEvents = 20_000

// cutDetails writes about details that leave events out, which they do at each read and each change of the action.
var cutDetails = logger.Fold{Every: 10 * time.Minute}

// details reads the events of the action in row and puts both together.
func (b *backend) details(ctx context.Context, org string, row *models.Action) (*workflow.ActionDetails, error) {
	id := identifierOf(org, row)
	rows, err := b.repo.ListEvents(ctx, id, maxEvents+1)
	if err != nil {
		return nil, err
	}
	if len(rows) > maxEvents {
		rows = rows[:maxEvents]
		key := fmt.Sprintf("%s/%s/%s/%s", row.Project, row.Domain, row.RunName, row.Name)
		cutDetails.Warnf(ctx, key, "action %s has more than %d events; its details leave out the last ones", key, maxEvents)
	}
	events := make([]*workflow.ActionEvent, 0, len(rows))
	for _, row := range rows {
		event, err := row.ToActionEvent()
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return detailsOf(org, row, events), nil
}

func detailsOf(org string, row *models.Action, events []*workflow.ActionEvent) *workflow.ActionDetails {
	recorded := recordedRequest(row)
	details := &workflow.ActionDetails{
		Id:       identifierOf(org, row),
		Metadata: metadataOf(org, row, recorded),
		Status:   statusOf(row),
		Attempts: attemptsOf(events),
	}
	if condition := recorded.GetCondition(); condition != nil {
		details.Spec = &workflow.ActionDetails_Condition{Condition: condition}
	}
	setResult(details, row)
	return details
}

// setResult tells why an action did not succeed. An action of which an abort was requested, but which succeeded all the same, has no
// such reason.
func setResult(details *workflow.ActionDetails, row *models.Action) {
	switch details.GetStatus().GetPhase() {
	case common.ActionPhase_ACTION_PHASE_ABORTED:
		details.Result = &workflow.ActionDetails_AbortInfo{AbortInfo: &workflow.AbortInfo{Reason: row.AbortReason.String}}
	case common.ActionPhase_ACTION_PHASE_FAILED, common.ActionPhase_ACTION_PHASE_TIMED_OUT:
		if last := lastAttempt(details); last.GetErrorInfo() != nil {
			details.Result = &workflow.ActionDetails_ErrorInfo{ErrorInfo: last.GetErrorInfo()}
		}
	}
}

// lastAttempt returns nil while there is none.
func lastAttempt(details *workflow.ActionDetails) *workflow.ActionAttempt {
	if n := len(details.GetAttempts()); n > 0 {
		return details.GetAttempts()[n-1]
	}
	return nil
}

func (b *backend) actionDetails(ctx context.Context, id *common.ActionIdentifier) (*workflow.ActionDetails, error) {
	row, err := b.repo.GetAction(ctx, id)
	if err != nil {
		return nil, err
	}
	return b.details(ctx, id.GetRun().GetOrg(), row)
}

func (b *backend) runDetails(ctx context.Context, id *common.RunIdentifier) (*workflow.RunDetails, error) {
	row, err := b.repo.GetRun(ctx, id)
	if err != nil {
		return nil, err
	}
	details, err := b.details(ctx, id.GetOrg(), row)
	if err != nil {
		return nil, err
	}
	return &workflow.RunDetails{Action: details}, nil
}
