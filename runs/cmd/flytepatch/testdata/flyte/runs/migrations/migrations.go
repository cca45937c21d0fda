// Package migrations brings the database's tables up to date.
package migrations

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jmoiron/sqlx"
)

//go:embed sql/*.sql
var files embed.FS

// Run applies, in order of their names, the files that the database has not seen.
func Run(ctx context.Context, db *sqlx.DB) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin migrations: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	// One replica at a time; the lock goes with the transaction.
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(7756)`); err != nil {
		return fmt.Errorf("lock migrations: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_history (name TEXT PRIMARY KEY)`); err != nil {
		return fmt.Errorf("create schema_history: %w", err)
	}
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	for _, name := range names {
		var seen bool
		if err := tx.GetContext(ctx, &seen, `SELECT EXISTS (SELECT 1 FROM schema_history WHERE name = $1)`, name); err != nil {
			return fmt.Errorf("look up migration %s: %w", name, err)
		}
		if seen {
			continue
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read migration %s: %w", name, err)
		}
		if _, err := tx.ExecContext(ctx, string(content)); err != nil {
			return fmt.Errorf("apply migration %s: %w", name, err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO schema_history (name) VALUES ($1)`, name); err != nil {
			return fmt.Errorf("note migration %s: %w", name, err)
		}
	}
	return tx.Commit()
}
