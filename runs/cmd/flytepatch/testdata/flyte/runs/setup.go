// Package runs is the service that keeps runs and actions.
package runs

import (
	"context"
	"fmt"

	"github.com/flyteorg/flyte/v2/flytestdlib/app"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/migrations"
	"github.com/flyteorg/flyte/v2/runs/repository"
)

// Setup puts the service together.
func Setup(ctx context.Context, sc *app.SetupContext) error {
	if err := migrations.Run(ctx, sc.DB); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}

	repo, err := repository.NewRepository(sc.DB, sc.DbConfig)
	if err != nil {
		return fmt.Errorf("start the repository: %w", err)
	}
	_ = repo.ActionRepo()

	logger.Infof(ctx, "runs service is set up")
	return nil
}
