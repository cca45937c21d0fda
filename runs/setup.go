// Package runs puts the runs service together: database, migrations, repository, RPC handlers, metrics, and the life cycle around
// them.
package runs

import (
	"context"
	"fmt"
	"io"

	"github.com/flyteorg/flyte/v2/flytestdlib/app"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/flytestdlib/otelutils"
	"github.com/flyteorg/flyte/v2/runs/config"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
	"github.com/flyteorg/flyte/v2/runs/service"
	"github.com/flyteorg/flyte/v2/runs/statuspage"
)

// serviceName is under what name the service's metrics are registered and shown.
const serviceName = "runs"

// Run serves until ctx ends, a signal comes, or a part fails; see app.App.Run for the error. When the service is ready it says on
// out, for people, where it is and what to try.
func Run(ctx context.Context, cfg config.Config, out io.Writer) error {
	a := app.New(cfg.Server)
	metrics, err := otelutils.RegisterMeterProvider(serviceName)
	if err != nil {
		// Figures are not worth a service that does not start; without them its parts measure nothing.
		logger.Warnf(ctx, "there are no metrics: %v", err)
	} else {
		a.HandleInternal("GET /metrics", metrics.Handler())
		a.OnClose("metrics", metrics.Shutdown)
	}

	var server databaseServer
	setup := func(ctx context.Context) error {
		used, err := setUp(ctx, a, cfg, metrics)
		server = used
		return err
	}

	return a.Run(ctx, setup, func() { announce(ctx, out, a.Address(), cfg, server) })
}

// setUp opens what the service stands on, from the bottom up, and leaves each part for the app to close.
func setUp(ctx context.Context, a *app.App, cfg config.Config, metrics *otelutils.Metrics) (databaseServer, error) {
	server, err := startServer(ctx, a, cfg.Database)
	if err != nil {
		return server, err
	}
	db, err := openDatabase(ctx, server.config, cfg.Database.StartTimeout)
	if err != nil {
		return server, err
	}
	pool, err := db.DB()
	if err != nil {
		return server, fmt.Errorf("connection pool: %w", err)
	}
	a.OnClose("connection pool", func(context.Context) error { return pool.Close() })
	a.Check("database", databaseCheck(pool))

	meters := otelutils.GetMeterProvider(serviceName)
	if metrics != nil {
		if err := metrics.RegisterPool(serviceName, pool); err != nil {
			logger.Warnf(ctx, "some metrics are missing: %v", err)
		}
	}

	repo, err := impl.NewRepository(db, server.config, impl.WithNotifyConfig(cfg.Runs.Notify), impl.WithMeterProvider(meters))
	if err != nil {
		return server, fmt.Errorf("repository: %w", err)
	}
	a.OnClose("repository", repo.Close)
	a.Check("listener", repo.NotifyReady)
	a.Check("pump", pumpCheck(repo.NotifyStatus))
	a.HandleInternal("GET /debug/notify", debugNotify(repo.NotifyStatus))

	svc, err := service.New(cfg.Runs.Service, repo.ActionRepo(), meters)
	if err != nil {
		return server, fmt.Errorf("rpc handlers: %w", err)
	}
	for _, mount := range svc.Mounts() {
		a.Handle(mount.Path, mount.Handler)
	}
	a.OnDrain(svc.Drain)

	page := statuspage.New(repo.ActionRepo(), repo.NotifyStatus)
	for pattern, handler := range page.Handlers() {
		a.Handle(pattern, handler)
	}
	a.OnDrain(page.Drain)

	awaitListener(ctx, repo.NotifyReady)
	return server, nil
}
