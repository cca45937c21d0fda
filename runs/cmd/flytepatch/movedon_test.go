package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// moveOn changes the fixture as months of unrelated work would: functions come, fields change places and names, comments are
// rewritten, files grow. Nothing of it is what the series was written against but what the contract names.
func moveOn(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, actionGo)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(content)
	once := func(old, new string) {
		require.Equal(t, 1, strings.Count(text, old), "%q", old)
		text = strings.Replace(text, old, new, 1)
	}
	// The struct in another order, with a field more, the pool under another name, the settings without what is around them.
	once(`	db       *sqlx.DB
	dbConfig database.DbConfig
	listener *pq.Listener

`, `	// One payload at a time.
	runNotifyCh, actionNotifyCh chan string // 256 slots each

	reads int64 // for a test

`)
	once(`	mu                sync.RWMutex // guards both maps

	// Read by runNotifyLoop, one payload at a time.
	runNotifyCh    chan string
	actionNotifyCh chan string
`, `	mu                sync.RWMutex // guards the two maps above

	pool     *sqlx.DB // of the service
	settings *database.PostgresConfig
	pgListener *pq.Listener
`)
	once("dbConfig:          dbConfig,", "settings: &dbConfig.Postgres,")
	once("db:                db,", "pool: db,")
	// The channels are made elsewhere, and set afterwards.
	once("		runNotifyCh:       make(chan string, notifySlots),\n", "")
	once("		actionNotifyCh:    make(chan string, notifySlots),\n", "")
	once("	if err := repo.startPostgresListener(); err != nil {", `	runs := make(chan string, notifySlots)
	// Made before anything reads from them.
	repo.runNotifyCh = runs
	repo.actionNotifyCh = make(chan string, notifySlots)

	if err := repo.startPostgresListener(); err != nil {`)
	text = strings.ReplaceAll(text, "r.db.", "r.pool.")
	text = strings.ReplaceAll(text, "r.dbConfig.Postgres", "*r.settings")
	text = strings.ReplaceAll(text, "r.listener", "r.pgListener")
	once("// GetRun reads the run's root action.", `// forget is new.
func (r *actionRepo) forget(ctx context.Context, runID *common.RunIdentifier) error {
	_, err := r.pool.ExecContext(ctx, "DELETE FROM actions WHERE project = $1 AND domain = $2 AND run_name = $3", runID.Project, runID.Domain, runID.Name)
	return err
}

// GetRun gets the run.`)
	once("// startPostgresListener listens on a connection of its own.\n", "/*\nstartPostgresListener is commented in another style.\n*/\n")
	once("func (r *actionRepo) notifyRunUpdate(ctx context.Context, runID *common.RunIdentifier) {\n	payload", "func (r *actionRepo) notifyRunUpdate(ctx context.Context, id *common.RunIdentifier) {\n	runID := id\n	payload")
	text += "\n// last is what the file ends with now.\nfunc last() string { return \"last\" }\n\nvar _ = last\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))

	const tests = "runs/repository/impl/action_test.go"
	replace(t, dir, tests, "		db:                db,\n", "		pool: db,\n")
	replace(t, dir, tests, "repo.listener = ", "repo.pgListener = ")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs/migrations/sql/29990101000000_later.sql"), []byte("CREATE INDEX idx_later ON actions (created_at);\n"), 0o644))
	output(t, dir, nil, "gofmt", "-w", "runs")
	commit(t, dir, "months later")
}

func TestMovedOn_TheSeriesAppliesByAm(t *testing.T) {
	dir := flyte(t)
	moveOn(t, dir)
	requireSound(t, dir, implPackage)
	consumers := consumersOf(t, dir)
	patches := filepath.Join(t.TempDir(), "patches")
	out, err := patch(t.Context(), "--flyte", dir, "--out", patches)
	require.NoError(t, err, out)

	am(t, dir, patches)
	requireSound(t, dir, implPackage)
	assert.Equal(t, consumers, consumersOf(t, dir))
	content, err := os.ReadFile(filepath.Join(dir, actionGo))
	require.NoError(t, err)
	for _, kept := range []string{"// GetRun gets the run.", "// forget is new.", "reads int64 // for a test", "var _ = last"} {
		assert.True(t, strings.Contains(string(content), kept), kept)
	}
	for _, gone := range []string{"NotifyCh", "notifySlots", "startPostgresListener is commented", "Made before anything"} {
		assert.False(t, strings.Contains(string(content), gone), gone)
	}
}

func TestMovedOn_ASeriesMadeBeforeAppliesToo(t *testing.T) {
	dir := flyte(t)
	patches := filepath.Join(t.TempDir(), "patches")
	out, err := patch(t.Context(), "--flyte", dir, "--out", patches)
	require.NoError(t, err, out)

	replace(t, dir, actionGo, "// CreateAction inserts the action, or gives the row that is there.", "// isRoot is new.\nfunc isRoot(name string) bool { return name == rootActionName }\n\nvar _ = isRoot\n\n// CreateAction is about a new action.")
	replace(t, dir, "runs/setup.go", "// Setup puts the service together.", "// Setup is what the service starts with.")
	commit(t, dir, "meanwhile")
	am(t, dir, patches)
	requireSound(t, dir, implPackage)
}
