package impl

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

// notifyPatience bounds the wait for what must happen at all; generous, for machines under load.
const notifyPatience = 60 * time.Second

// notifyTables are the tables as the migrations leave them, less what no test here needs.
const notifyTables = `
CREATE TABLE actions (
	project TEXT NOT NULL, domain TEXT NOT NULL, run_name TEXT NOT NULL DEFAULT '', name TEXT NOT NULL,
	parent_action_name TEXT, phase INTEGER NOT NULL DEFAULT 1, run_source TEXT NOT NULL DEFAULT '', action_type INTEGER NOT NULL DEFAULT 0,
	action_group TEXT, task_project TEXT, task_domain TEXT, task_name TEXT, task_version TEXT,
	task_type TEXT NOT NULL DEFAULT '', task_short_name TEXT, function_name TEXT NOT NULL DEFAULT '', environment_name TEXT,
	action_spec BYTEA, action_details BYTEA, detailed_info BYTEA, run_spec BYTEA,
	abort_requested_at TIMESTAMPTZ, abort_attempt_count INTEGER NOT NULL DEFAULT 0, abort_reason TEXT,
	created_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
	ended_at TIMESTAMPTZ, duration_ms BIGINT, attempts INTEGER NOT NULL DEFAULT 0, cache_status INTEGER NOT NULL DEFAULT 0,
	trigger_name TEXT, trigger_task_name TEXT, trigger_revision BIGINT, created_by BYTEA, created_by_subject TEXT,
	PRIMARY KEY (project, domain, run_name, name)
);
CREATE TABLE action_events (
	project TEXT NOT NULL, domain TEXT NOT NULL, run_name TEXT NOT NULL, name TEXT NOT NULL,
	attempt INTEGER NOT NULL, phase INTEGER NOT NULL, version INTEGER NOT NULL, info BYTEA, error_kind TEXT,
	created_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
	PRIMARY KEY (project, domain, run_name, name, attempt, phase, version)
)`

// notifyDatabase makes a database of the test's own on the tests' server.
func notifyDatabase(t *testing.T) (*sqlx.DB, database.DbConfig) {
	t.Helper()
	config := database.DbConfig{MaxIdleConnections: 4, MaxOpenConnections: 8, Postgres: database.PostgresConfig{
		Host: "localhost", Port: 15432, DbName: "postgres", User: "postgres", Password: "postgres", ExtraOptions: "sslmode=disable",
	}}
	if host := os.Getenv("PGHOST"); host != "" {
		config.Postgres.Host = host
	}
	if port, err := strconv.Atoi(os.Getenv("PGPORT")); err == nil {
		config.Postgres.Port = port
	}
	server := config.Postgres
	config.Postgres.DbName = "notify_" + strings.ToLower(rand.Text())
	execOn(t, server, "CREATE DATABASE "+config.Postgres.DbName)
	t.Cleanup(func() { execOn(t, server, "DROP DATABASE "+config.Postgres.DbName+" WITH (FORCE)") })
	execOn(t, config.Postgres, notifyTables)

	db, err := sqlx.Open("pgx", database.GetPostgresDsn(context.Background(), config.Postgres))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, config
}

// connectTo opens a connection beside the pool.
func connectTo(t *testing.T, config database.PostgresConfig) (*pgx.Conn, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), notifyPatience)
	conn, err := pgx.Connect(ctx, database.GetPostgresDsn(ctx, config))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close(ctx)
		cancel()
	})
	return conn, ctx
}

func execOn(t *testing.T, config database.PostgresConfig, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), notifyPatience)
	defer cancel()
	conn, err := pgx.Connect(ctx, database.GetPostgresDsn(ctx, config))
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	require.NoError(t, err, statement)
}

// killBackends ends the sessions of the test's database that call themselves so.
func killBackends(t *testing.T, db *sqlx.DB, role string) {
	t.Helper()
	var killed int
	require.Eventually(t, func() bool {
		err := db.Get(&killed, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE '%' || $1`, role)
		return err == nil && killed > 0
	}, notifyPatience, 10*time.Millisecond, "no session of the %s", role)
}

var notifyRun = &common.RunIdentifier{Org: "flyte", Project: "flytesnacks", Domain: "development", Name: "r1"}

func notifyAction(i int) *common.ActionIdentifier {
	return &common.ActionIdentifier{Run: notifyRun, Name: fmt.Sprintf("n%d", i)}
}
