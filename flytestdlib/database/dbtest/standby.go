//go:build unix

package dbtest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Standby makes a second server that follows s by streaming replication: it can be read, and refuses writes, LISTEN and NOTIFY with
// 25006, until Promote. s is restarted for the copy, so this comes before the test connects.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	s.Stop(Fast)
	dir := tempDir(t)
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", s.config.Dir+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("standby: copy of %s: %v: %s", s.config.Dir, err, out)
	}
	s.Start()
	if err := os.WriteFile(filepath.Join(dir, "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatalf("standby: %v", err)
	}
	primary := s.Config().Postgres
	settings := maps.Clone(s.settings)
	settings["primary_conninfo"] = fmt.Sprintf("host=%s port=%d user=%s password=%s", primary.Host, primary.Port, primary.User, primary.Password)
	return startIn(t, dir, WithSettings(settings))
}

// Promote makes a standby a primary and returns when it takes writes.
func (s *Server) Promote() {
	s.t.Helper()
	execute(s.t, s.t.Context(), s.Config().Postgres, "SELECT pg_promote(true, 60)")
}
