package checkout

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = environment()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// newRepo is a checkout with one commit.
func newRepo(t *testing.T) string {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "none"))
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	gitIn(t, dir, "init", "--quiet", "--initial-branch=main")
	gitIn(t, dir, "config", "user.name", "Ada Example")
	gitIn(t, dir, "config", "user.email", "ada@example.org")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o644))
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "--quiet", "-m", "first")
	return dir
}

// snapshot is every file below a directory with its content's hash.
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

// temporary has temporary directories made in a place of the test's own and checks that it is left empty.
func temporary(t *testing.T) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Cleanup(func() {
		left, err := os.ReadDir(temp)
		assert.NoError(t, err)
		assert.Empty(t, left)
	})
}

func committed(t *testing.T, c *Checkout) *Worktree {
	t.Helper()
	w, err := c.Worktree(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.Dir(), "b.txt"), []byte("two\n"), 0o644))
	require.NoError(t, w.Commit(t.Context(), "Add b\n\nBecause.\n"))
	return w
}

func TestWorktree_LeavesNothing(t *testing.T) {
	dir := newRepo(t)
	temporary(t)
	before := snapshot(t, dir)

	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	w := committed(t, c)
	assert.NotEqual(t, c.Head(), w.Tip())
	require.NoError(t, w.Close())
	assert.Equal(t, before, snapshot(t, dir), "not even an object or a reflog stays")
	require.NoError(t, w.Close(), "closing twice is harmless")
}

func TestCreateBranch_PutsTheCommitsThereAndNothingElse(t *testing.T) {
	dir := newRepo(t)
	temporary(t)
	// A hook, a signing key that is not there and another identity in the environment: none of them has a say.
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "hooks", "commit-msg"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	gitIn(t, dir, "config", "commit.gpgsign", "true")
	t.Setenv("GIT_AUTHOR_NAME", "Somebody Else")
	t.Setenv("GIT_DIR", "/nowhere")

	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, c.CheckBranch(t.Context(), "perf/x"))
	w := committed(t, c)
	require.NoError(t, w.CreateBranch(t.Context(), "perf/x"))
	require.NoError(t, w.Close())

	assert.Equal(t, "main", gitIn(t, dir, "rev-parse", "--abbrev-ref", "HEAD"))
	assert.Empty(t, gitIn(t, dir, "status", "--porcelain"))
	assert.NoFileExists(t, filepath.Join(dir, "b.txt"))
	assert.Equal(t, "two", gitIn(t, dir, "show", "perf/x:b.txt"))
	assert.Equal(t, "Ada Example <ada@example.org>", gitIn(t, dir, "log", "-1", "--format=%an <%ae>", "perf/x"))
	assert.Equal(t, "Signed-off-by: Ada Example <ada@example.org>", gitIn(t, dir, "log", "-1", "--format=%(trailers)", "perf/x"))
	assert.Len(t, strings.Split(gitIn(t, dir, "worktree", "list"), "\n"), 1)
	gitIn(t, dir, "fsck", "--strict")

	err = c.CheckBranch(t.Context(), "perf/x")
	assert.ErrorIs(t, err, ErrBranchExists)
	assert.ErrorContains(t, err, "branch perf/x")
	w = committed(t, c)
	assert.ErrorContains(t, w.CreateBranch(t.Context(), "perf/x"), "create branch perf/x")
	require.NoError(t, w.Close())
}

func TestPatches_ApplyElsewhere(t *testing.T) {
	dir := newRepo(t)
	temporary(t)
	gitIn(t, dir, "config", "diff.noprefix", "true")
	gitIn(t, dir, "config", "format.attach", "true")
	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	w := committed(t, c)
	out := filepath.Join(t.TempDir(), "deep", "patches")
	require.NoError(t, CheckOut(out))
	names, err := w.Patches(t.Context(), out, Cover{Subject: "Two files", Text: "Why: one was lonely."})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.Equal(t, []string{CoverLetter, "0001-Add-b.patch"}, names)
	letter, err := os.ReadFile(filepath.Join(out, CoverLetter))
	require.NoError(t, err)
	assert.Contains(t, string(letter), "Subject: [PATCH 0/1] Two files\n")
	assert.Contains(t, string(letter), "Why: one was lonely.")
	assert.Contains(t, string(letter), "1 file changed")
	assert.ErrorContains(t, CheckOut(out), "holds patches already")

	gitIn(t, dir, "am", "--quiet", filepath.Join(out, "0001-Add-b.patch"))
	assert.FileExists(t, filepath.Join(dir, "b.txt"))
}

func TestPatches_AllOrNone(t *testing.T) {
	dir := newRepo(t)
	temporary(t)
	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	w := committed(t, c)
	out := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(out, "0001-Add-b.patch"), []byte("mine"), 0o644))
	before := snapshot(t, out)
	_, err = w.Patches(t.Context(), out, Cover{})
	require.Error(t, err)
	require.NoError(t, w.Close())
	assert.Equal(t, before, snapshot(t, out))
}

func TestCheckOut_Unwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	assert.ErrorContains(t, CheckOut(filepath.Join(file, "patches")), "can't be written")
	assert.ErrorContains(t, CheckOut(file), "can't be written")
}

func TestOpen_Refuses(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, dir string) string // gives the directory to open
		want  string
	}{
		"no checkout": {func(t *testing.T, _ string) string { return t.TempDir() }, "is no git checkout"},
		"not there":   {func(_ *testing.T, dir string) string { return filepath.Join(dir, "gone") }, "gone"},
		"a directory within": {func(t *testing.T, dir string) string {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
			return filepath.Join(dir, "sub")
		}, "name the checkout's top"},
		"a change": {func(t *testing.T, dir string) string {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("other\n"), 0o644))
			return dir
		}, "not committed: M a.txt"},
		"a new file": {func(t *testing.T, dir string) string {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "c.txt"), nil, 0o644))
			return dir
		}, "not committed: ?? c.txt"},
		"no identity": {func(t *testing.T, dir string) string {
			gitIn(t, dir, "config", "--unset", "user.email")
			return dir
		}, "no user.email"},
		"no commit": {func(t *testing.T, _ string) string {
			empty := t.TempDir()
			gitIn(t, empty, "init", "--quiet")
			return empty
		}, "no commit to build on"},
		"no git": {func(t *testing.T, dir string) string {
			t.Setenv("PATH", t.TempDir())
			return dir
		}, "git is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tc.spoil(t, newRepo(t))
			_, err := Open(t.Context(), dir)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestWorktree_UnwritableCheckout(t *testing.T) {
	dir := newRepo(t)
	temporary(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "worktrees"), nil, 0o644)) // stops root too
	before := snapshot(t, dir)
	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	_, err = c.Worktree(t.Context())
	assert.ErrorContains(t, err, "make a temporary worktree")
	assert.Equal(t, before, snapshot(t, dir))
}

func TestCheckBranch_NameInTheWay(t *testing.T) {
	dir := newRepo(t)
	gitIn(t, dir, "branch", "perf")
	before := snapshot(t, dir)
	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	assert.ErrorContains(t, c.CheckBranch(t.Context(), "perf/x"), "can't be created beside perf")
	assert.Equal(t, before, snapshot(t, dir))
}

func TestWorktree_InterruptedWhileItIsMade(t *testing.T) {
	dir := newRepo(t)
	temporary(t)
	before := snapshot(t, dir)
	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 6 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		w, err := c.Worktree(ctx)
		cancel()
		if err == nil {
			require.NoError(t, w.Close())
		}
		assert.Equal(t, before, snapshot(t, dir), "interrupted after %s", after)
	}
}
