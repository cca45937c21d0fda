package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRefusals_NameFileAndDeclarationAndChangeNothing(t *testing.T) {
	edit := func(file, old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			replace(t, dir, file, old, new)
			commit(t, dir, "another shape")
		}
	}
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  []string
	}{
		"another module": {edit("go.mod", "module github.com/flyteorg/flyte/v2", "module github.com/flyteorg/flyte"), []string{"go.mod", `"github.com/flyteorg/flyte"`}},
		"a requirement is missing": {
			edit("go.mod", "	github.com/jackc/pgx/v5 v5.13.0\n", ""), []string{"go.mod", "github.com/jackc/pgx/v5 is not required"},
		},
		"a dirty tree": {func(t *testing.T, dir string) { replace(t, dir, "README.md", "A miniature", "My own") }, []string{"not committed", "README.md"}},
		"the file is missing": {func(t *testing.T, dir string) {
			git(t, dir, "mv", actionGo, "runs/repository/impl/actions.go")
			commit(t, dir, "renamed")
		}, []string{actionGo, "the file is missing"}},
		"the file does not parse": {edit(actionGo, "package impl", "package"), []string{actionGo}},
		"a method is missing": {
			edit(actionGo, "func (r *actionRepo) startNotifyLoop() error {", "func (r *actionRepo) startPump() error {"),
			[]string{actionGo, "method actionRepo.startNotifyLoop is missing"},
		},
		"a consumer is missing": {
			edit(actionGo, "func (r *actionRepo) WatchAllRunUpdates(", "func (r *actionRepo) WatchEveryRun("),
			[]string{actionGo, "method actionRepo.WatchAllRunUpdates is missing"},
		},
		"another signature": {
			edit(actionGo, "func (r *actionRepo) notifyRunUpdate(ctx context.Context, runID *common.RunIdentifier) {", "func (r *actionRepo) notifyRunUpdate(ctx context.Context, runID *common.RunIdentifier, now bool) {"),
			[]string{actionGo, "method actionRepo.notifyRunUpdate", "another signature", "now bool"},
		},
		"the loop has another user": {
			edit(actionGo, "// NotifyStateUpdate wakes", "func (r *actionRepo) again() { go r.runNotifyLoop(nil) }\n\n// NotifyStateUpdate wakes"),
			[]string{actionGo, "method actionRepo.again", "runNotifyLoop"},
		},
		"another handle": {edit(actionGo, "	db       *sqlx.DB\n", "	db       sqlx.Ext\n"), []string{actionGo, "type actionRepo has 0 fields of type *sqlx.DB"}},
		"another way to read": {
			edit(actionGo, ") GetAction(ctx context.Context, actionID *common.ActionIdentifier) (*models.Action, error) {", ") GetAction(ctx context.Context, actionID *common.ActionIdentifier, _ ...bool) (*models.Action, error) {"),
			[]string{actionGo, "method actionRepo.GetAction", "another signature", withoutAhead},
		},
		"a watch of another kind": {
			edit(actionGo, "WatchAllRunUpdates(ctx context.Context, updates chan<- *models.Run", "WatchAllRunUpdates(ctx context.Context, updates chan *models.Run"),
			[]string{actionGo, "method actionRepo.WatchAllRunUpdates", "another signature", withoutAhead},
		},
		"a repository of a type of its own": {
			edit(actionGo, "dbConfig database.DbConfig) (interfaces.ActionRepo, error) {", "dbConfig database.DbConfig) (*actionRepo, error) {"),
			[]string{actionGo, "func NewActionRepo", "another signature", withoutAhead},
		},
		"a repository that is returned by name": {func(t *testing.T, dir string) {
			replace(t, dir, actionGo, "dbConfig database.DbConfig) (interfaces.ActionRepo, error) {", "dbConfig database.DbConfig) (made interfaces.ActionRepo, err error) {")
			replace(t, dir, actionGo, "	return repo, nil\n", "	made = repo\n	return\n")
			commit(t, dir, "another shape")
		}, []string{actionGo, "func NewActionRepo has no return statement", withoutAhead}},
		"a field of the same name": {
			edit(actionGo, "	db       *sqlx.DB\n", "	db       *sqlx.DB\n	ahead    bool\n"),
			[]string{actionGo, "type actionRepo has a field ahead already", withoutAhead},
		},
		"a column is missing": {
			edit("runs/migrations/sql/20260301090000_actions.sql", "    run_spec BYTEA,\n", ""),
			[]string{"runs/migrations/sql", "no migration has the column run_spec", withoutAhead},
		},
		"a name that is taken": {
			edit(actionGo, "// NotifyStateUpdate wakes", "type rowKey string\n\n// NotifyStateUpdate wakes"),
			[]string{"rowKey redeclared", "do not compile", withoutAhead},
		},
		"it does not compile": {
			edit(actionGo, "	return repo, nil\n", "	return repo, undefinedThere\n"), []string{"undefinedThere", "do not compile"},
		},
		"an unwritable checkout": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/worktrees"), nil, 0o644)) // stops root too
		}, []string{"temporary worktree"}},
		"a branch in the way": {func(t *testing.T, dir string) { git(t, dir, "branch", "perf") }, []string{"branch perf/notify-pump can't be created"}},
		"no git":              {func(t *testing.T, _ string) { t.Setenv("PATH", t.TempDir()) }, []string{"git is not installed"}},
		"no identity":         {func(t *testing.T, dir string) { git(t, dir, "config", "--unset", "user.name") }, []string{"user.name"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := flyte(t)
			tc.spoil(t, dir)
			before := snapshot(t, dir)
			_, err := patch(t.Context(), "--flyte", dir, "--apply")
			require.Error(t, err)
			for _, want := range tc.want {
				assert.ErrorContains(t, err, want)
			}
			assertUnchanged(t, before, dir)
		})
	}
}

// withoutAhead is what to say in order to have the other commits.
const withoutAhead = "--without-ahead"

func TestRefusals_WithoutTheLastCommitTheOthersAreMade(t *testing.T) {
	dir := flyte(t)
	replace(t, dir, "runs/migrations/sql/20260301090000_actions.sql", "    run_spec BYTEA,\n", "")
	commit(t, dir, "another shape")
	out, err := patch(t.Context(), "--flyte", dir, "--apply", withoutAhead)
	require.NoError(t, err, out)
	assert.Equal(t, strconv.Itoa(seriesLength-1), git(t, dir, "rev-list", "--count", "main.."+branch))
}

func TestRefusals_Unwritable(t *testing.T) {
	dir := flyte(t)
	before := snapshot(t, dir)
	_, err := patch(t.Context(), "--flyte", dir, "--out", filepath.Join(dir, "README.md", "patches"))
	assert.ErrorContains(t, err, "can't be written")
	assertUnchanged(t, before, dir)
}

func TestRefusals_OfTheCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"nothing to do":      {[]string{"--flyte", "."}, "check out apply"},
		"no checkout":        {[]string{"--check"}, `"flyte" not set`},
		"check and apply":    {[]string{"--flyte", ".", "--check", "--apply"}, "apply check"},
		"an argument":        {[]string{"--flyte", ".", "--check", "DIR"}, "DIR"},
		"outside of a clone": {[]string{"--flyte", ".", "--check", "--from", "/"}, "not inside the repository"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := patch(t.Context(), tc.args...)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
