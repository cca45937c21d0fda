package impl

import (
	"context"

	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

// Repository implements interfaces.Repository and tells how its notifications are doing.
type Repository struct {
	actions *actionRepo
	watched *readingAhead
}

var _ interfaces.Repository = (*Repository)(nil)

// NewRepository returns the service's storage on db. See NewActionRepo for the arguments. The caller closes it, and db after it.
func NewRepository(db *gorm.DB, dbConfig database.DbConfig, options ...Option) (*Repository, error) {
	actions, err := newActionRepo(db, dbConfig, options...)
	if err != nil {
		return nil, err
	}
	return &Repository{actions: actions, watched: &readingAhead{actions}}, nil
}

// ActionRepo implements interfaces.Repository. Those who watch through it are read for in common.
func (r *Repository) ActionRepo() interfaces.ActionRepo { return r.watched }

// Close implements interfaces.Repository.
func (r *Repository) Close(ctx context.Context) error { return r.actions.Close(ctx) }

// NotifyReady tells whether every change reaches the watchers of this process now: the listener is connected and has caught up. Until then they
// may show what is over. It returns at once.
func (r *Repository) NotifyReady(context.Context) error { return r.actions.notifyReady() }

// NotifyStatus tells how announcing and hearing of changes goes. It returns at once.
func (r *Repository) NotifyStatus() interfaces.NotifyStatus { return r.actions.notifyStatus() }
