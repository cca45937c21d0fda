// Package repository puts the repositories together.
package repository

import (
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

type repository struct {
	actionRepo interfaces.ActionRepo
}

// NewRepository starts the repositories on the pool.
func NewRepository(db *sqlx.DB, dbConfig database.DbConfig) (interfaces.Repository, error) {
	actionRepo, err := impl.NewActionRepo(db, dbConfig)
	if err != nil {
		return nil, fmt.Errorf("action repository: %w", err)
	}
	return &repository{actionRepo: actionRepo}, nil
}

func (r *repository) ActionRepo() interfaces.ActionRepo { return r.actionRepo }
