package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// migrateTimeout bounds Migrate: the wait for another replica's migrations, and our own.
const migrateTimeout = 5 * time.Minute

// lockPoll is the pause in seconds between two attempts to get the migration lock; goose knows no shorter one.
const lockPoll = 1

// Migrate brings the schema up to date: it runs the files VERSION_name.sql at the root of migrations that the database has not seen, in
// the order of their versions, each in a transaction of its own and each once. It returns when they are in place, within five minutes.
//
// Several processes may call it at once: an advisory lock lets one at a time work, and the server drops the lock of one that dies. It
// takes one connection of the pool. A failed file leaves the schema at the version before it.
func Migrate(ctx context.Context, db *gorm.DB, migrations fs.FS) error {
	limit := fmt.Errorf("not done within %s: %w", migrateTimeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, migrateTimeout, limit)
	defer cancel()
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	// One attempt more than fits, so that the deadline above ends the wait and its error says so.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPoll, uint64(migrateTimeout/time.Second)+1))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, migrations, goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	applied, err := provider.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		applied, err = partial.Applied, fmt.Errorf("%s: %w", partial.Failed.Source.Path, partial.Err)
	}
	for _, done := range applied {
		logger.Infof(ctx, "migration %s applied in %s", done.Source.Path, done.Duration)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
