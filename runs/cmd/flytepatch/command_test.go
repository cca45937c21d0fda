package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/checkout"
	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/series"
)

func TestFixture_IsSound(t *testing.T) {
	requireSound(t, flyte(t), implPackage)
}

func TestApply_EachCommitIsSound(t *testing.T) {
	dir := flyte(t)
	consumers := consumersOf(t, dir)

	out, err := patch(t.Context(), "--flyte", dir, "--apply")
	require.NoError(t, err, out)
	assert.Contains(t, out, "created branch "+branch)
	assert.Equal(t, "main", git(t, dir, "branch", "--show-current"))
	assert.Empty(t, git(t, dir, "status", "--porcelain"))
	assert.Equal(t, "main\n"+branch, git(t, dir, "branch", "--format=%(refname:short)"))
	assert.Len(t, strings.Split(git(t, dir, "worktree", "list"), "\n"), 1)
	git(t, dir, "fsck", "--strict")

	commits := strings.Fields(git(t, dir, "rev-list", "--reverse", "main.."+branch))
	require.Len(t, commits, seriesLength)
	tests := [seriesLength][]string{{enginePackage}, {implPackage}, {implPackage}, {enginePackage, implPackage}, {implPackage}}
	for i, sha := range commits {
		subject := git(t, dir, "log", "-1", "--format=%s", sha)
		t.Run(subject, func(t *testing.T) {
			assert.LessOrEqual(t, len(subject), 72)
			assert.Equal(t, "Ada Example <ada@example.org>", git(t, dir, "log", "-1", "--format=%an <%ae>", sha))
			assert.Equal(t, "Signed-off-by: Ada Example <ada@example.org>", git(t, dir, "log", "-1", "--format=%(trailers)", sha))
			git(t, dir, "checkout", "--quiet", sha)
			assert.Equal(t, consumers, consumersOf(t, dir))
			requireSound(t, dir, tests[i]...)
		})
	}
}

// consumersOf are the sources of what must not change.
func consumersOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, actionGo))
	require.NoError(t, err)
	file, err := goedit.Parse(actionGo, content)
	require.NoError(t, err)
	sources := map[string]string{}
	for _, name := range []string{"processNotifications", "WatchRunUpdates", "WatchAllRunUpdates", "WatchAllActionUpdates", "WatchActionUpdates"} {
		fn := file.Func("actionRepo", name)
		require.NotNil(t, fn, name)
		sources[name] = fn.Text()
	}
	return sources
}

func TestOut_GivesWhatApplyGives(t *testing.T) {
	dir := flyte(t)
	before := snapshot(t, dir)
	patches := filepath.Join(t.TempDir(), "patches")
	out, err := patch(t.Context(), "--flyte", dir, "--out", patches)
	require.NoError(t, err, out)
	assertUnchanged(t, before, dir)

	letter, err := os.ReadFile(filepath.Join(patches, checkout.CoverLetter))
	require.NoError(t, err)
	assert.NotContains(t, string(letter), "***")
	_, err = patch(t.Context(), "--flyte", dir, "--out", patches)
	assert.ErrorContains(t, err, "holds patches already")

	out, err = patch(t.Context(), "--flyte", dir, "--apply")
	require.NoError(t, err, out)
	am(t, dir, patches)
	assert.Equal(t, git(t, dir, "rev-parse", branch+"^{tree}"), git(t, dir, "rev-parse", "main^{tree}"))
}

// am applies the patches to the branch that is checked out.
func am(t *testing.T, dir, patches string) {
	t.Helper()
	mails, err := filepath.Glob(filepath.Join(patches, "*.patch"))
	require.NoError(t, err)
	require.Len(t, mails, seriesLength)
	git(t, dir, append([]string{"am", "--quiet", "--3way"}, mails...)...)
}

func TestCheck_ChangesNothing(t *testing.T) {
	dir := flyte(t)
	before := snapshot(t, dir)
	out, err := patch(t.Context(), "--flyte", dir, "--check")
	require.NoError(t, err, out)
	assert.Contains(t, out, "the series applies to "+git(t, dir, "rev-parse", "HEAD"))
	assertUnchanged(t, before, dir)
}

func TestTwice_IsAlreadyApplied(t *testing.T) {
	dir := flyte(t)
	_, err := patch(t.Context(), "--flyte", dir, "--apply")
	require.NoError(t, err)
	before := snapshot(t, dir)

	_, err = patch(t.Context(), "--flyte", dir, "--apply")
	require.ErrorIs(t, err, series.ErrApplied)
	assert.ErrorContains(t, err, "branch "+branch)
	assertUnchanged(t, before, dir)

	git(t, dir, "checkout", "--quiet", branch)
	for _, what := range []string{"--check", "--out=" + filepath.Join(t.TempDir(), "patches")} {
		_, err = patch(t.Context(), "--flyte", dir, what)
		require.ErrorIs(t, err, series.ErrApplied)
		assert.ErrorContains(t, err, "flytestdlib/pgnotify is there: already applied")
	}
}

func TestThisRepository_HasItAlready(t *testing.T) {
	dir := flyte(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "flytestdlib/pgnotify"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "flytestdlib/pgnotify/doc.go"), []byte("package pgnotify\n"), 0o644))
	commit(t, dir, "as here")
	_, err := patch(t.Context(), "--flyte", dir, "--check")
	assert.ErrorIs(t, err, series.ErrApplied)
}
