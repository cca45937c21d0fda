package impl

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// GetRun implements interfaces.ActionRepo.
func (r *actionRepo) GetRun(ctx context.Context, runID *common.RunIdentifier) (*models.Run, error) {
	run, err := readForWatcher(ctx, runUpdatesChannel, runKey(runID), func() (*models.Run, error) { return r.takeRun(ctx, runID) })
	switch {
	case err != nil:
		if ctx.Err() == nil {
			// WatchAllRunUpdates goes on after a failed read, and would show what is over until the run changes once more.
			r.listener.TellAgain(runUpdatesChannel, runKey(runID))
		}
		return nil, fmt.Errorf("read run %s: %w", runKey(runID), err)
	case run == nil:
		return nil, runNotFound(runID)
	}
	return run, nil
}

// takeRun reads a run's root action; nil is a run that is not there.
func (r *actionRepo) takeRun(ctx context.Context, id *common.RunIdentifier) (*models.Run, error) {
	inRun := r.db.WithContext(ctx).
		Where("project = ? AND domain = ? AND run_name = ? AND parent_action_name IS NULL", id.GetProject(), id.GetDomain(), id.GetName()).
		Session(&gorm.Session{})

	// By the primary key first: to look for the row without a parent is to look at every action of the run.
	run, err := takeOne[models.Run](inRun.Where("name = ?", rootActionName))
	if err == nil && run == nil {
		run, err = takeOne[models.Run](inRun)
	}
	return run, err
}

// GetAction implements interfaces.ActionRepo.
func (r *actionRepo) GetAction(ctx context.Context, actionID *common.ActionIdentifier) (*models.Action, error) {
	action, err := readForWatcher(ctx, actionUpdatesChannel, actionKey(actionID), func() (*models.Action, error) {
		return takeOne[models.Action](r.db.WithContext(ctx).Where(actionCondition, actionKeyArgs(actionID)...))
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read action %s: %w", actionKey(actionID), err)
	case action == nil:
		return nil, actionNotFound(actionID)
	}
	return action, nil
}

// ListActions implements interfaces.ActionRepo.
func (r *actionRepo) ListActions(ctx context.Context, input interfaces.ListResourceInput) ([]*models.Action, error) {
	if err := input.Validate(); err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}

	tx := r.db.WithContext(ctx)
	if query, args := input.Filter.Where(); query != "" {
		tx = tx.Where(query, args...)
	}
	if input.KeysetAfterCreatedAt != nil {
		tx = tx.Where("(created_at, name) > (?, ?)", *input.KeysetAfterCreatedAt, input.KeysetAfterName)
	}
	for _, key := range listOrder(input.SortParameters) {
		tx = tx.Order(key)
	}

	var actions []*models.Action
	if err := tx.Limit(input.Limit + 1).Offset(input.Offset).Find(&actions).Error; err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	return actions, nil
}

// listOrder returns the keys of ORDER BY. Without the tie-breakers at its end, rows that are equal in what was asked for could change places
// from one page to the next.
func listOrder(asked []interfaces.SortParameter) []string {
	var keys []string
	sorted := make(map[string]bool)
	for _, parameter := range asked {
		keys = append(keys, parameter.OrderExpression())
		sorted[parameter.Column()] = true
	}
	if len(asked) == 0 {
		keys = append(keys, "phase ASC", "created_at DESC")
	}
	for _, tieBreaker := range []string{"run_name", "name"} {
		if !sorted[tieBreaker] {
			keys = append(keys, tieBreaker+" ASC")
		}
	}
	return keys
}

// actionCondition picks one action by the four values of actionKeyArgs.
const actionCondition = "project = ? AND domain = ? AND run_name = ? AND name = ?"

func actionKeyArgs(id *common.ActionIdentifier) []any {
	run := id.GetRun()
	return []any{run.GetProject(), run.GetDomain(), run.GetName(), id.GetName()}
}

// takeOne reads at most one row; none is nil without an error, which spares the log gorm's complaint about it. A prepared statement that a
// migration has made unusable is prepared anew: on the same connection, since each of the pool has its own.
func takeOne[T any](tx *gorm.DB) (*T, error) {
	tx = tx.Session(&gorm.Session{})
	var rows []*T
	read := func(tx *gorm.DB) error {
		rows = nil
		return tx.Limit(1).Find(&rows).Error
	}
	err := read(tx)
	if isStalePlan(err) {
		err = tx.Connection(func(pinned *gorm.DB) error {
			if err := read(pinned.Session(&gorm.Session{})); !isStalePlan(err) {
				return err
			}
			return read(pinned.Session(&gorm.Session{}))
		})
	}
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return rows[0], nil
}

// isStalePlan tells whether a prepared statement no longer fits its tables ("cached plan must not change result type") or is gone. pgx
// forgets it then, and prepares it anew when it is next used on that connection.
func isStalePlan(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "0A000" || refused.Code == "26000")
}

func runNotFound(id *common.RunIdentifier) error {
	return &interfaces.NotFoundError{What: "run", Key: runKey(id)}
}

func actionNotFound(id *common.ActionIdentifier) error {
	return &interfaces.NotFoundError{What: "action", Key: actionKey(id)}
}
