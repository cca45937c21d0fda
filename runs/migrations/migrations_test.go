package migrations_test

import (
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/runs/migrations"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func open(t *testing.T, config database.DbConfig) *gorm.DB {
	t.Helper()
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return db
}

func TestFilesAreNamedForTheirOrder(t *testing.T) {
	names, err := fs.Glob(migrations.FS(), "*")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	seen := make(map[string]bool)
	for _, name := range names {
		require.Regexp(t, regexp.MustCompile(`^2026(0[1-9]|1[0-2])\d{8}_[a-z0-9_]+\.sql$`), name)
		version, _, _ := strings.Cut(name, "_")
		assert.False(t, seen[version], "two files of version %s", version)
		seen[version] = true
		content, err := fs.ReadFile(migrations.FS(), name)
		require.NoError(t, err)
		assert.NotContains(t, string(content), "goose Down", name)
	}
}

// The tables as agreed with everybody who reads them.
func TestTables(t *testing.T) {
	db := open(t, dbtest.Config(t))
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))

	columns := func(table string) (got []string) {
		require.NoError(t, db.Raw(`SELECT concat_ws(' ', column_name, upper(CASE data_type WHEN 'timestamp with time zone' THEN 'timestamptz' ELSE data_type END),
				CASE is_nullable WHEN 'NO' THEN 'NOT NULL' END, 'DEFAULT ' || replace(column_default, '::text', ''))
			FROM information_schema.columns WHERE table_schema = 'public' AND table_name = ? ORDER BY ordinal_position`, table).Scan(&got).Error)
		return got
	}
	indexes := func(table string) (got []string) {
		require.NoError(t, db.Raw(`SELECT CASE WHEN indexdef LIKE 'CREATE UNIQUE%' THEN 'unique ' ELSE '' END || regexp_replace(indexdef, '^.* USING btree ', '')
			FROM pg_indexes WHERE schemaname = 'public' AND tablename = ?`, table).Scan(&got).Error)
		return got
	}

	assert.Equal(t, []string{
		"project TEXT NOT NULL", "domain TEXT NOT NULL", "run_name TEXT NOT NULL DEFAULT ''", "name TEXT NOT NULL", "parent_action_name TEXT",
		"phase INTEGER NOT NULL DEFAULT 1", "run_source TEXT NOT NULL DEFAULT ''", "action_type INTEGER NOT NULL DEFAULT 0", "action_group TEXT",
		"task_project TEXT", "task_domain TEXT", "task_name TEXT", "task_version TEXT", "task_type TEXT NOT NULL DEFAULT ''", "task_short_name TEXT",
		"function_name TEXT NOT NULL DEFAULT ''", "environment_name TEXT", "action_spec BYTEA", "action_details BYTEA", "detailed_info BYTEA",
		"run_spec BYTEA", "abort_requested_at TIMESTAMPTZ", "abort_attempt_count INTEGER NOT NULL DEFAULT 0", "abort_reason TEXT",
		"created_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP", "updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP",
		"ended_at TIMESTAMPTZ", "duration_ms BIGINT", "attempts INTEGER NOT NULL DEFAULT 0", "cache_status INTEGER NOT NULL DEFAULT 0",
		"trigger_name TEXT", "trigger_task_name TEXT", "trigger_revision BIGINT", "created_by BYTEA", "created_by_subject TEXT",
	}, columns("actions"))
	assert.Subset(t, indexes("actions"), []string{
		"unique (project, domain, run_name, name)", "(project, domain, run_name)", "(parent_action_name)", "(phase)", "(created_at)",
		"(abort_requested_at)", "(created_by_subject)", "(project, domain, run_name, created_at, name)",
		"(project, domain, run_name) WHERE (phase = 9)", "(updated_at)",
	})

	assert.Equal(t, []string{
		"project TEXT NOT NULL", "domain TEXT NOT NULL", "run_name TEXT NOT NULL", "name TEXT NOT NULL", "attempt INTEGER NOT NULL",
		"phase INTEGER NOT NULL", "version INTEGER NOT NULL", "info BYTEA", "error_kind TEXT",
		"created_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP", "updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP",
	}, columns("action_events"))
	assert.Subset(t, indexes("action_events"), []string{
		"unique (project, domain, run_name, name, attempt, phase, version)", "(error_kind) WHERE (error_kind IS NOT NULL)", "(created_at)",
	})
}

func TestReplicasThatStartTogether(t *testing.T) {
	config := dbtest.Config(t)
	var replicas sync.WaitGroup
	for range 4 {
		db := open(t, config)
		replicas.Go(func() { assert.NoError(t, database.Migrate(t.Context(), db, migrations.FS())) })
	}
	replicas.Wait()
	require.NoError(t, database.Migrate(t.Context(), open(t, config), migrations.FS()), "again, later")
}

// A table that has not been analyzed yet is the rule after an installation. A look-up by the whole key must not scan the run meanwhile.
func TestAnActionIsFoundByItsKeyBeforeTheTableIsAnalyzed(t *testing.T) {
	db := open(t, dbtest.Config(t))
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	require.NoError(t, db.Exec("ALTER TABLE actions SET (autovacuum_enabled = off)").Error)
	require.NoError(t, db.Exec("INSERT INTO actions (project, domain, run_name, name) SELECT 'p', 'd', 'r' || i % 5, 'a' || i FROM generate_series(1, 10000) AS i").Error)

	for _, statement := range []string{"SELECT * FROM actions", "UPDATE actions SET phase = 4"} {
		var plan []string
		require.NoError(t, db.Raw("EXPLAIN "+statement+" WHERE project = 'p' AND domain = 'd' AND run_name = 'r1' AND name = 'a1'").Scan(&plan).Error)
		assert.Contains(t, strings.Join(plan, "\n"), "actions_pkey", statement)
	}
}
