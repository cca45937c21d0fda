package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// maintenanceDatabase is where one connects to create another one; initdb makes it on every server.
const maintenanceDatabase = "postgres"

// createIfMissing creates config's database when the server says that there is none. The role needs CREATEDB only in that case.
func createIfMissing(ctx context.Context, config *pgx.ConnConfig) error {
	err := tryConnect(ctx, config)
	if sqlState(err) != codeNoSuchDatabase {
		return err
	}
	maintenance := config.Copy()
	maintenance.Database = maintenanceDatabase
	conn, err := pgx.ConnectConfig(ctx, maintenance)
	if err != nil {
		return fmt.Errorf("is missing; create it: %w", causeOr(ctx, err))
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{config.Database}.Sanitize())
	switch sqlState(err) {
	case codeDuplicateDatabase, codeUniqueViolation:
		// Another replica was faster: before our statement looked, or, by the unique index of the catalog, while it ran.
		return nil
	}
	if err != nil {
		return fmt.Errorf("is missing; create it: %w", causeOr(ctx, err))
	}
	logger.Infof(ctx, "created database %s on %s:%d", config.Database, config.Host, config.Port)
	return nil
}

func tryConnect(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return causeOr(ctx, err)
	}
	return conn.Close(ctx)
}

// SQLSTATE codes that a start-up may meet.
const (
	codeNoSuchDatabase    = "3D000"
	codeDuplicateDatabase = "42P04"
	codeUniqueViolation   = "23505"
)

// sqlState returns the server's code for err, empty when err is not from the server.
func sqlState(err error) string {
	var fromServer *pgconn.PgError
	if errors.As(err, &fromServer) {
		return fromServer.Code
	}
	return ""
}
