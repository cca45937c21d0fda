//go:build unix

package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func fakeVersion(t *testing.T, says string) string {
	t.Helper()
	return fakePrograms(t, map[string]string{"postgres": fmt.Sprintf("echo '%s'", says), "initdb": "exit 1"})
}

func TestProgramsAreFoundInPathNewestFirst(t *testing.T) {
	old, new := fakeVersion(t, "postgres (PostgreSQL) 14.9"), fakeVersion(t, "postgres (PostgreSQL) 18beta1 (Debian)")
	unsupported := fakeVersion(t, "postgres (PostgreSQL) 13.1")
	links := publicDir(t) // as some distributions put single programs into PATH
	require.NoError(t, os.Symlink(filepath.Join(new, "postgres"), filepath.Join(links, "postgres")))
	t.Setenv("PATH", old+":"+unsupported+":/nonexistent:"+links+":"+os.Getenv("PATH"))

	found := findPrograms(t.Context(), nil)
	require.Equal(t, programs{dir: new, version: 18}, found[0])
	require.Contains(t, found, programs{dir: old, version: 14})
	for i, p := range found[1:] {
		require.LessOrEqual(t, p.version, found[i].version)
		require.NotEqual(t, unsupported, p.dir)
	}
}

func TestInstallFoldersAreSearchedWithoutPath(t *testing.T) {
	dir := publicDir(t)
	home := filepath.Join(dir, "16", "bin")
	require.NoError(t, os.MkdirAll(filepath.Dir(home), 0o755))
	require.NoError(t, os.Rename(fakeVersion(t, "postgres (PostgreSQL) 16.2"), home))
	before := installPatterns
	t.Cleanup(func() { installPatterns = before })
	installPatterns = []string{filepath.Join(dir, "*", "bin")}
	t.Setenv("PATH", "/nonexistent")
	require.Equal(t, []programs{{dir: home, version: 16}}, findPrograms(t.Context(), nil))
}

func TestUnusableProgramsSayWhy(t *testing.T) {
	for want, dir := range map[string]string{
		"version 19 is not within 14 to 18":        fakeVersion(t, "postgres (PostgreSQL) 19.1"),
		`postgres --version says "something else"`: fakeVersion(t, "something else"),
		"exit status 3: broken library":            fakePrograms(t, map[string]string{"postgres": "echo broken library >&2; exit 3", "initdb": ""}),
		"initdb: no such file or directory":        fakePrograms(t, map[string]string{"postgres": ""}),
		"holds version 16, not 17":                 fakeVersion(t, "postgres (PostgreSQL) 16.2"),
	} {
		_, err := Start(t.Context(), Config{BinDir: dir, Version: 17}, Ephemeral())
		require.ErrorContains(t, err, "binDir: ")
		require.ErrorContains(t, err, want)
	}
}
