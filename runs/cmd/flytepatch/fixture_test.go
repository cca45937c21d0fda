package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

// The fixture below testdata/flyte as a git checkout, and what the tests do with it.

const (
	actionGo = "runs/repository/impl/action.go"

	implPackage   = "./runs/repository/impl"
	enginePackage = "./flytestdlib/pgnotify"

	seriesLength = 5 // commits
)

// flyte is a checkout of the fixture with one commit, on the branch main. Nobody's git config has a say, and the temporary
// directory is one that must be left empty.
func flyte(t *testing.T) string {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "none"))
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(temp, "flytepatch-*"))
		require.NoError(t, err)
		require.Empty(t, left, "left behind")
	})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/flyte")))
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	git(t, dir, "config", "user.name", "Ada Example")
	git(t, dir, "config", "user.email", "ada@example.org")
	commit(t, dir, "the fixture")
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return output(t, dir, nil, "git", args...)
}

func commit(t *testing.T, dir, subject string) {
	t.Helper()
	git(t, dir, "add", "--all", "--force")
	git(t, dir, "commit", "--quiet", "-m", subject)
}

// output runs a command that must succeed.
func output(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// patch runs the command in this process.
func patch(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// replace changes a file of the checkout; the text must be there once.
func replace(t *testing.T, dir, file, old, new string) {
	t.Helper()
	path := filepath.Join(dir, file)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(content), old), "%q in %s", old, file)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(content), old, new, 1)), 0o644))
}

// snapshot is every file of a checkout, .git included, with its content's hash.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			files[path] = "directory"
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	}))
	return files
}

// assertUnchanged compares a checkout with its snapshot and names the files that differ.
func assertUnchanged(t *testing.T, before map[string]string, dir string) {
	t.Helper()
	after := snapshot(t, dir)
	for path, hash := range before {
		assert.Equal(t, hash, after[path], path)
	}
	for path := range after {
		_, known := before[path]
		assert.True(t, known, "%s is new", path)
	}
}

// requireSound requires of a checkout as it stands that it is formatted, compiles, vets, and passes the tests of the packages on
// PostgreSQL.
func requireSound(t *testing.T, dir string, packages ...string) {
	t.Helper()
	require.Empty(t, output(t, dir, nil, "gofmt", "-l", "."), "gofmt")
	output(t, dir, nil, "go", "vet", "./...")
	db := dbtest.Config(t).Postgres
	env := []string{"PGHOST=" + db.Host, "PGPORT=" + strconv.Itoa(db.Port), "PGDATABASE=" + db.DbName}
	output(t, dir, env, "go", append([]string{"test", "-count=1", "-timeout=5m"}, packages...)...)
}
