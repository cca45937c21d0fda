package database

import (
	"context"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver
	"github.com/jmoiron/sqlx"
)

// GetDB opens the pool.
func GetDB(ctx context.Context, cfg *DbConfig) (*sqlx.DB, error) {
	db, err := sqlx.ConnectContext(ctx, "pgx", GetPostgresDsn(ctx, cfg.Postgres))
	if err != nil {
		return nil, fmt.Errorf("open database %q: %w", cfg.Postgres.DbName, err)
	}
	db.SetMaxIdleConns(cfg.MaxIdleConnections)
	db.SetMaxOpenConns(cfg.MaxOpenConnections)
	return db, nil
}
