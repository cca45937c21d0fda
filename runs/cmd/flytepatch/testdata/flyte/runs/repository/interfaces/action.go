// Package interfaces says what the service needs of its storage.
package interfaces

import (
	"context"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// ActionRepo keeps runs and actions. A run is its root action.
type ActionRepo interface {
	GetRun(ctx context.Context, runID *common.RunIdentifier) (*models.Run, error)
	GetAction(ctx context.Context, actionID *common.ActionIdentifier) (*models.Action, error)
	CreateAction(ctx context.Context, action *models.Action) (*models.Action, error)
	UpdateActionPhase(ctx context.Context, actionID *common.ActionIdentifier, phase common.ActionPhase) error
	AbortRun(ctx context.Context, runID *common.RunIdentifier) error
	NotifyStateUpdate(ctx context.Context, actionID *common.ActionIdentifier) error
	WatchRunUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Run, errs chan<- error)
	WatchAllRunUpdates(ctx context.Context, updates chan<- *models.Run, errs chan<- error)
	WatchAllActionUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Action, errs chan<- error)
	WatchActionUpdates(ctx context.Context, actionID *common.ActionIdentifier, updates chan<- *models.Action, errs chan<- error)
}
