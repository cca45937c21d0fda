package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

const (
	databaseName = "runs"
	queryTimeout = 2 * time.Minute
)

// startDatabase starts an empty server that waits for the disk at a commit as a server in production does.
func startDatabase(ctx context.Context) (*embedded.Server, error) {
	return embedded.Start(ctx, embedded.Config{}, embedded.Ephemeral(), embedded.WithSettings(map[string]string{
		"max_connections": "200", "fsync": "on", "full_page_writes": "on",
	}))
}

// query asks the server directly, not through the proxy. dest takes the columns of the one row.
func query(ctx context.Context, dsn, sql string, dest ...any) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := conn.QueryRow(ctx, sql).Scan(dest...); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

// countRows counts what a load left, as far as its answers say something about it. The database is the load's own.
func countRows(ctx context.Context, server *embedded.Server, expected load.Written) (*trial.Rows, error) {
	rows := &trial.Rows{Expected: expected}
	err := query(ctx, server.DSN(databaseName), `
		SELECT count(*), count(*) FILTER (WHERE phase IN (5, 6) AND ended_at IS NOT NULL), (SELECT count(*) FROM action_events)
		FROM actions`, &rows.Stored.Actions, &rows.Stored.Ended, &rows.Stored.Events)
	return rows, err
}
