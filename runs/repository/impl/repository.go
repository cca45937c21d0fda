package impl

import (
	"context"

	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

type repository struct {
	actions *actionRepo
}

// NewRepository returns the service's storage on db. See NewActionRepo for the arguments. The caller closes it, and db after it.
func NewRepository(db *gorm.DB, dbConfig database.DbConfig, options ...Option) (interfaces.Repository, error) {
	actions, err := newActionRepo(db, dbConfig, options...)
	if err != nil {
		return nil, err
	}
	return &repository{actions: actions}, nil
}

func (r *repository) ActionRepo() interfaces.ActionRepo { return r.actions }

func (r *repository) Close(ctx context.Context) error { return r.actions.Close(ctx) }
