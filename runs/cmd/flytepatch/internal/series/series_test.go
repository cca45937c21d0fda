package series

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

// treeOf is a tree with the given files.
func treeOf(t *testing.T, files map[string]string) tree {
	t.Helper()
	made := tree{dir: t.TempDir()}
	for name, content := range files {
		require.NoError(t, made.create(name, []byte(content)))
	}
	return made
}

func TestForeignTo(t *testing.T) {
	file, err := goedit.Parse("a.go", []byte(`package pgnotify

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	_ "go.uber.org/goleak"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

func home(ctx context.Context, _ *pgconn.Config) { logger.Warnf(ctx, "%v", noop.Meter{}) }
func fields(ctx context.Context)                 { logger.WithFields(ctx, "a", "b") }
func sdk()                                       { sdkmetric.NewManualReader() }
func database()                                  { dbtest.DSN(nil) }
`))
	require.NoError(t, err)
	for key, foreign := range map[string]string{
		"func home":     "",
		"func fields":   "logger.WithFields",
		"func sdk":      "go.opentelemetry.io/otel/sdk/metric",
		"func database": "github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest",
		"import":        "go.uber.org/goleak",
	} {
		assert.Equal(t, foreign, foreignTo(file, key), key)
	}
}

func TestEngineFiles_LeaveOutWhatFlyteHasNot(t *testing.T) {
	source := Source{tree: treeOf(t, map[string]string{
		engineDir + "/doc.go":       "// Package pgnotify is one.\npackage pgnotify\n",
		engineDir + "/metrics.go":   "package pgnotify\n\nfunc measure() {}\n",
		engineDir + "/dsn_test.go":  "package pgnotify\n\nimport \"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest\"\n\nvar _ = dbtest.DSN\n",
		engineDir + "/main_test.go": "package pgnotify\n\nimport (\n\t\"testing\"\n\n\t\"go.uber.org/goleak\"\n)\n\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }\n",
		engineDir + "/a_test.go": `package pgnotify

import (
	"testing"

	"pgregory.net/rapid"
)

type machine struct{ t *rapid.T }

func (m *machine) step() {}

func TestMachine(t *testing.T) { (&machine{}).step() }

func TestPlain(t *testing.T) {}
`,
	})}
	files, err := engineFiles(source, false)
	require.NoError(t, err)
	assert.Len(t, files, 3)
	assert.Contains(t, string(files[engineDir+"/dsn_test.go"]), "PGPORT")
	assert.Equal(t, "package pgnotify\n\nimport (\n\t\"testing\"\n)\n\nfunc TestPlain(t *testing.T) {}\n", string(files[engineDir+"/a_test.go"]))

	files, err = engineFiles(source, true)
	require.NoError(t, err)
	assert.Len(t, files, 1)
	assert.Contains(t, files, engineDir+"/metrics.go")

	require.NoError(t, source.tree.create(engineDir+"/b.go", []byte("package pgnotify\n\nimport \"golang.org/x/sync/errgroup\"\n\nvar g errgroup.Group\n")))
	_, err = engineFiles(source, false)
	assert.ErrorContains(t, err, engineDir+"/b.go: var g needs golang.org/x/sync/errgroup")
}

func TestPutMigration(t *testing.T) {
	made := treeOf(t, map[string]string{
		migrationDir + "/20260301090000_first.sql":      "-- +goose Up\nSELECT 1;\n",
		migrationDir + "/20261231235959_last.sql":       "-- +goose Up\nSELECT 2;\n",
		migrationDir + "/readme.md":                     "",
		migrationDir + "/99999999_not_of_this_kind.sql": "",
	})
	require.NoError(t, putMigration(made))
	content, err := made.read(migrationDir + "/20270101000059_notify_catch_up_indexes.sql")
	require.NoError(t, err)
	assert.Regexp(t, `^-- \+goose Up\n`, string(content))

	require.NoError(t, made.create(migrationDir+"/20269901000000_bad.sql", nil))
	assert.ErrorContains(t, putMigration(made), "20269901000000_bad.sql")
	assert.ErrorContains(t, putMigration(treeOf(t, nil)), "migrations are missing")
	assert.ErrorContains(t, putMigration(treeOf(t, map[string]string{migrationDir + "/a.sql": ""})), "no file is named")
}

func TestSameTypes(t *testing.T) {
	assert.True(t, sameTypes([]string{"context.Context", "*commonpb.RunIdentifier"}, []string{"context.Context", "*common.RunIdentifier"}))
	assert.False(t, sameTypes([]string{"common.RunIdentifier"}, []string{"*common.RunIdentifier"}))
	assert.True(t, sameTypes([]string{"chan<- *m.Run", "map[a.K][]b.V", "...string"}, []string{"chan<- *models.Run", "map[K][]V", "...string"}))
	assert.False(t, sameTypes([]string{"chan *models.Run"}, []string{"chan<- *models.Run"}))
	assert.False(t, sameTypes([]string{"error"}, nil))
}

func TestMessage_ListsTheTestsThatWent(t *testing.T) {
	text, err := message("2-pump.txt", []string{"TestA", "TestB"})
	require.NoError(t, err)
	assert.Contains(t, text, "\n- TestA\n- TestB\n")
	for _, step := range steps(Source{}, true) {
		text, err := message(step.message, nil)
		require.NoError(t, err)
		assert.Regexp(t, `^.{1,72}\n\n(.{0,76}\n)+$`, text, step.message)
	}
}

func TestPutAheadFiles(t *testing.T) {
	source, err := FindSource(".")
	require.NoError(t, err)
	made := treeOf(t, nil)
	require.NoError(t, putAheadFiles(made, source))
	for _, name := range aheadFiles {
		content, err := made.read(implDir + "/" + name)
		require.NoError(t, err)
		for old := range aheadNames {
			assert.NotRegexp(t, `\b`+old+`\b`, string(content), name)
		}
		assert.NotContains(t, string(content), "r.db", name)
	}

	other := treeOf(t, nil)
	for _, name := range aheadFiles {
		require.NoError(t, other.create(implDir+"/"+name, []byte("package impl\n\nconst fetchRowsSQL = 1\n")))
	}
	assert.ErrorContains(t, putAheadFiles(treeOf(t, nil), Source{tree: other}), "is in none of")
}

func TestFindSource(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	source, err := FindSource(".")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(here, "../../../../.."), source.tree.dir)
	_, err = FindSource(t.TempDir())
	assert.ErrorContains(t, err, "not inside the repository")
	cover, err := Cover(source)
	require.NoError(t, err)
	assert.NotEmpty(t, cover.Subject)
	assert.NotContains(t, cover.Subject, "#")
}
