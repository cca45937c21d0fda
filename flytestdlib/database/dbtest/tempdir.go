//go:build unix

package dbtest

import (
	"os"
	"testing"
)

// tempDir is a folder for a server's data. t.TempDir would not do: its parents are closed to the account that a server started by root runs under.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flyte-dbtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove server folder: %v", err)
		}
	})
	// MkdirTemp makes it 0700 and root's own.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
