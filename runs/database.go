package runs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/app"
	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/config"
	"github.com/flyteorg/flyte/v2/runs/migrations"
)

// spareConnections is how many more connections than the pool's limit the embedded server allows: for the pump, the listener, those
// that PostgreSQL keeps for superusers, and people with psql.
const spareConnections = 25

// databaseServer is the PostgreSQL server that the service uses.
type databaseServer struct {
	// config has the address, also of an embedded server.
	config database.DbConfig
	// description names the server and, of an embedded one, where its data is.
	description string
}

// startServer starts the embedded server, where no other is configured. Its end by itself ends the service.
func startServer(ctx context.Context, a *app.App, cfg config.Database) (databaseServer, error) {
	if !cfg.UsesEmbedded() {
		at := fmt.Sprintf("%s on %s:%d", cfg.Postgres.DbName, cfg.Postgres.Host, cfg.Postgres.Port)
		return databaseServer{config: cfg.DbConfig, description: at}, nil
	}

	server, err := embedded.Start(ctx, cfg.Embedded, embedded.WithSettings(map[string]string{
		"max_connections": strconv.Itoa(cfg.MaxOpenConnections + spareConnections),
	}))
	if err != nil {
		return databaseServer{}, err
	}
	a.OnClose("embedded postgresql", server.Stop)
	a.Go("embedded postgresql", func(ctx context.Context) error {
		select {
		case <-server.Done():
			return fmt.Errorf("the server has ended by itself; its log is in %s", server.Dir())
		case <-ctx.Done():
			return nil
		}
	})

	found := cfg.DbConfig
	found.Postgres = server.Postgres(cfg.Postgres.DbName)
	found.Postgres.Debug = cfg.Postgres.Debug
	at := fmt.Sprintf("%s on 127.0.0.1:%d, embedded PostgreSQL %d, data in %s", cfg.Postgres.DbName, server.Port(), server.Version(), server.Dir())

	return databaseServer{config: found, description: at}, nil
}

// openDatabase opens the pool and brings the schema up to date. While the database cannot be reached it tries again, until
// limit has passed; what trying again cannot mend is an error at once.
func openDatabase(ctx context.Context, cfg database.DbConfig, limit time.Duration) (*gorm.DB, error) {
	deadline := fmt.Errorf("the database could not be reached within database.startTimeout (%s): %w", limit, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, deadline)
	defer cancel()

	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		db, err := openAndMigrate(ctx, cfg)
		switch {
		case err == nil:
			return db, nil
		case ctx.Err() != nil:
			return nil, errors.Join(context.Cause(ctx), err)
		case !mayPass(err):
			return nil, err
		}
		logger.Warnf(ctx, "the service waits for its database, next try in %s: %v", pause, err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// The pause between two attempts to open the database doubles from the first to the longest.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 5 * time.Second
)

func openAndMigrate(ctx context.Context, cfg database.DbConfig) (*gorm.DB, error) {
	db, err := database.GetDB(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	if err := database.Migrate(ctx, db, migrations.FS()); err != nil {
		return nil, errors.Join(err, closePool(db))
	}
	return db, nil
}

func closePool(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// mayPass tells whether an error of opening the database may be gone at the next attempt. A server that answers says no for good,
// to a wrong password or a migration that fails, unless it is starting, stopping or full.
func mayPass(err error) bool {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return true
	}
	switch answer.Code[:min(2, len(answer.Code))] {
	case "08", // connection lost
		"25", // read only: during a failover the address may still lead to a standby
		"53", // out of connections, memory or disk
		"57": // starting, stopping, killed by an administrator
		return true
	default:
		return false
	}
}
