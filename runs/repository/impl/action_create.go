package impl

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm/clause"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// CreateAction implements interfaces.ActionRepo.
func (r *actionRepo) CreateAction(ctx context.Context, action *models.Action, updateTriggeredAt bool) (*models.Action, error) {
	if action == nil {
		return nil, fmt.Errorf("create action: action must be set")
	}
	id := &common.ActionIdentifier{
		Run:  &common.RunIdentifier{Project: action.Project, Domain: action.Domain, Name: action.RunName},
		Name: action.Name,
	}
	if err := checkAction(action); err != nil {
		return nil, fmt.Errorf("create action %s: %w", actionKey(id), err)
	}
	isRoot := !action.ParentActionName.Valid

	row := *action
	if updateTriggeredAt {
		if !isRoot || !row.TriggerName.Valid {
			return nil, fmt.Errorf("create action %s: updateTriggeredAt: only for a root action that names its trigger", actionKey(id))
		}
		row.CreatedAt = time.Time{} // leaves it to the database
	}

	result := r.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
	if result.Error == nil && result.RowsAffected == 0 {
		return r.GetAction(ctx, id)
	}
	announce(result.Error, func() {
		r.notifyActionUpdate(ctx, id)
		if isRoot {
			r.notifyRunUpdate(ctx, id.GetRun())
		}
	})
	if result.Error != nil {
		return nil, fmt.Errorf("create action %s: %w", actionKey(id), result.Error)
	}
	return &row, nil
}
