//go:build unix

package database_test

import (
	"context"
	"maps"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

// twoSteps fails when a step runs twice or out of order.
var twoSteps = fstest.MapFS{
	"20250101000000_first.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE steps (id int PRIMARY KEY);\nINSERT INTO steps VALUES (1);\n")},
	"20250102000000_second.sql": {Data: []byte("-- +goose Up\nINSERT INTO steps SELECT max(id) + 1 FROM steps;\n")},
}

func requireTwoSteps(t *testing.T, db *gorm.DB) {
	t.Helper()
	var ids []int
	require.NoError(t, db.Raw("SELECT id FROM steps ORDER BY id").Scan(&ids).Error)
	require.Equal(t, []int{1, 2}, ids)
}

func TestMigrateRunsEachFileOnce(t *testing.T) {
	db := open(t, dbtest.Config(t))
	require.NoError(t, database.Migrate(t.Context(), db, fstest.MapFS{"20250101000000_first.sql": twoSteps["20250101000000_first.sql"]}))
	require.NoError(t, database.Migrate(t.Context(), db, twoSteps))
	require.NoError(t, database.Migrate(t.Context(), db, twoSteps))
	requireTwoSteps(t, db)
}

func TestMigrateFromManyAtOnce(t *testing.T) {
	config := dbtest.Config(t)
	config.MaxOpenConnections = 1 // of each; it needs no more
	var group errgroup.Group
	for range 8 {
		db := open(t, config)
		group.Go(func() error { return database.Migrate(t.Context(), db, twoSteps) })
	}
	require.NoError(t, group.Wait())
	requireTwoSteps(t, open(t, config))
}

func TestAFailedMigrationLeavesTheVersionBeforeIt(t *testing.T) {
	db := open(t, dbtest.Config(t))
	broken := maps.Clone(twoSteps)
	broken["20250103000000_third.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nINSERT INTO steps VALUES (3);\nSELECT no_such_function();\n")}
	err := database.Migrate(t.Context(), db, broken)
	require.ErrorContains(t, err, "20250103000000_third.sql")
	require.ErrorContains(t, err, "no_such_function")
	requireTwoSteps(t, db)
	require.NoError(t, database.Migrate(t.Context(), db, twoSteps), "the lock was kept")
}

func TestMigrateWaitsForAnotherReplicaAndNoLongerThanItsContext(t *testing.T) {
	config := dbtest.Config(t)
	db, other := open(t, config), open(t, config)
	pool, err := other.DB()
	require.NoError(t, err)
	conn, err := pool.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = conn.ExecContext(t.Context(), "SELECT pg_advisory_lock(4097083626)")
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, database.Migrate(ctx, db, twoSteps), context.DeadlineExceeded)

	migrated := make(chan error, 1)
	go func() { migrated <- database.Migrate(t.Context(), db, twoSteps) }()
	select {
	case err := <-migrated:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	_, err = conn.ExecContext(t.Context(), "SELECT pg_advisory_unlock(4097083626)")
	require.NoError(t, err)
	select {
	case err := <-migrated:
		require.NoError(t, err)
	case <-time.After(60 * time.Second):
		t.Fatal("waits for ever")
	}
	requireTwoSteps(t, db)
}
