package migrations_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/runs/migrations"
)

const errorKindIndex = "idx_action_events_error_kind"

// before returns the files that are older than version.
func before(t *testing.T, version string) fs.FS {
	t.Helper()
	names, err := fs.Glob(migrations.FS(), "*")
	require.NoError(t, err)
	older := fstest.MapFS{}
	for _, name := range names {
		if name < version {
			content, err := fs.ReadFile(migrations.FS(), name)
			require.NoError(t, err)
			older[name] = &fstest.MapFile{Data: content}
		}
	}
	require.NotEmpty(t, older)
	require.Less(t, len(older), len(names))
	return older
}

// addEvents adds as many events as given, in which every hundredth is of an error, half of them each the user's and the system's.
func addEvents(t *testing.T, db *gorm.DB, events int) {
	t.Helper()
	require.NoError(t, db.Exec(`INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version, error_kind)
		SELECT 'p', 'd', 'r', 'a' || i, 1, 4, 0, CASE i % 200 WHEN 0 THEN 'KIND_USER' WHEN 100 THEN 'KIND_SYSTEM' END
		FROM generate_series(1, ?::int) AS i`, events).Error)
	require.NoError(t, db.Exec("VACUUM ANALYZE action_events").Error)
}

// The index has no nulls, so it serves only what the planner can prove to want none. For a parameter it must do so without the value.
func TestLookUpsByErrorKindUseTheIndex(t *testing.T) {
	config := dbtest.Config(t)
	db := open(t, config)
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	addEvents(t, db, 20_000)
	conn, err := pgx.Connect(t.Context(), database.GetPostgresDsn(t.Context(), config.Postgres))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()

	explain := func(statement string) string {
		t.Helper()
		rows, err := conn.Query(t.Context(), "EXPLAIN "+statement, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return strings.Join(plan, "\n")
	}
	const events = "SELECT * FROM action_events WHERE "
	for _, condition := range []string{"error_kind = 'KIND_USER'", "error_kind IN ('KIND_USER', 'KIND_SYSTEM')", "error_kind IS NOT NULL"} {
		plan := explain(events + condition)
		assert.Contains(t, plan, errorKindIndex, condition)
	}
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		_, err = conn.Exec(t.Context(), "SET plan_cache_mode = "+mode)
		require.NoError(t, err)
		for i, prepared := range []struct{ condition, of, value string }{
			{"error_kind = $1", "text", "'KIND_USER'"},
			{"error_kind = ANY ($1)", "text[]", "'{KIND_USER}'"},
		} {
			name := fmt.Sprint("look_up_", mode, i)
			_, err = conn.Exec(t.Context(), fmt.Sprintf("PREPARE %s (%s) AS %s%s", name, prepared.of, events, prepared.condition))
			require.NoError(t, err)
			plan := explain(fmt.Sprintf("EXECUTE %s (%s)", name, prepared.value))
			assert.Contains(t, plan, errorKindIndex, "%s, %s", prepared.condition, mode)
			assert.Equal(t, mode == "force_generic_plan", strings.Contains(plan, "$1"), plan)
		}
	}
}

func TestEventsOfNoErrorAreNotInTheIndex(t *testing.T) {
	db := open(t, dbtest.Config(t))
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	addEvents(t, db, 20_000)
	var entries int
	require.NoError(t, db.Raw("SELECT reltuples FROM pg_class WHERE relname = ?", errorKindIndex).Scan(&entries).Error)
	assert.Equal(t, 200, entries)
}

// The service of the release before goes on while the schema of a filled database is brought up to date: its statements, prepared under the
// old indexes, may wait, but none fails, and none finds less than is there.
func TestServiceOfTheReleaseBeforeGoesOn(t *testing.T) {
	for _, version := range []string{"20260118090000", "20260118090500"} {
		t.Run("from before "+version, func(t *testing.T) {
			config := dbtest.Config(t)
			db := open(t, config)
			require.NoError(t, database.Migrate(t.Context(), db, before(t, version)))
			require.NoError(t, db.Exec(`INSERT INTO actions (project, domain, run_name, name)
				SELECT 'p', 'd', 'r', 'a' || i FROM generate_series(1, 20000) AS i`).Error)
			addEvents(t, db, 20_000)

			const writers, enough = 3, 50
			migrated := make(chan struct{})
			running := make(chan struct{}, 2*writers)
			var service errgroup.Group
			// Each calls once and says so, until the migration is through, and then enough times more.
			goOn := func(call func(i int) error) {
				service.Go(func() error {
					for i, after := 0, 0; after < enough; i++ {
						select {
						case <-migrated:
							after++
						default:
						}
						if err := call(i); err != nil {
							return err
						}
						if i == enough {
							running <- struct{}{}
						}
					}
					return nil
				})
			}
			inserted := make([]int, writers)
			for w := range writers {
				goOn(func(i int) error {
					inserted[w]++
					return db.Exec(`INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version, error_kind)
						VALUES ('p', 'd', ?, 'a0', 1, 4, ?, ?)`, fmt.Sprint("w", w), i, "KIND_USER").Error
				})
				goOn(func(int) error {
					var found int
					err := db.Raw("SELECT count(*) FROM action_events WHERE error_kind = ? AND run_name = 'r'", "KIND_USER").Scan(&found).Error
					if err == nil && found != 100 {
						err = fmt.Errorf("found %d", found)
					}
					return err
				})
			}
			ended := make(chan error, 1)
			go func() { ended <- service.Wait() }()
			for range 2 * writers {
				select {
				case <-running:
				case err := <-ended:
					require.NoError(t, err)
				case <-time.After(30 * time.Second):
					require.Fail(t, "the service does not get going")
				}
			}
			require.NoError(t, database.Migrate(t.Context(), open(t, config), migrations.FS()))
			close(migrated)
			require.NoError(t, <-ended)

			var definition string
			require.NoError(t, db.Raw("SELECT indexdef FROM pg_indexes WHERE indexname = ?", errorKindIndex).Scan(&definition).Error)
			assert.Contains(t, definition, "(error_kind) WHERE (error_kind IS NOT NULL)")
			for w, want := range inserted {
				var found int
				require.NoError(t, db.Raw("SELECT count(*) FROM action_events WHERE run_name = ?", fmt.Sprint("w", w)).Scan(&found).Error)
				assert.Equal(t, want, found)
			}
		})
	}
}

// A migration that has to wait for a writer must not make the readers wait for it.
func TestReadersDoNotWaitForTheIndexToBeBuilt(t *testing.T) {
	config := dbtest.Config(t)
	db := open(t, config)
	require.NoError(t, database.Migrate(t.Context(), db, before(t, "20260118090500")))
	addEvents(t, db, 1000)

	writer := db.WithContext(t.Context()).Begin()
	require.NoError(t, writer.Error)
	require.NoError(t, writer.Exec("INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version) VALUES ('p', 'd', 'r', 'a0', 1, 4, 0)").Error)
	migrated := make(chan error, 1)
	other := open(t, config)
	go func() { migrated <- database.Migrate(t.Context(), other, migrations.FS()) }()
	require.Eventually(t, func() bool {
		var waits bool
		require.NoError(t, db.Raw("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'action_events'::regclass AND NOT granted)").Scan(&waits).Error)
		return waits
	}, 30*time.Second, 5*time.Millisecond)

	require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("SET LOCAL lock_timeout = '5s'").Error; err != nil {
			return err
		}
		return tx.Exec("SELECT * FROM action_events WHERE error_kind = 'KIND_USER'").Error
	}))
	require.NoError(t, writer.Commit().Error)
	require.NoError(t, <-migrated)
}
