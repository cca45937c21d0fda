//go:build promtool

package monitoring_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests need promtool and are run by `make monitoring-check`.

func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
}

func TestRulesAreValid(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yaml")
}

// On the recordings and by themselves, alerts fire when they should and not when they should not.
func TestAlertsFire(t *testing.T) {
	files, err := filepath.Glob("tests/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { promtool(t, "test", "rules", file) })
	}
}

// What Grafana makes of the dashboard's queries is valid PromQL.
func TestQueriesOfTheDashboardAreValid(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	replaced := strings.NewReplacer("$__rate_interval", "1m", "$job", "runs", "$instance", "a")
	for i, expr := range slices.Sorted(func(yield func(string) bool) {
		for _, expr := range expressions(t, readDashboard(t)) {
			if !yield(expr) {
				return
			}
		}
	}) {
		fmt.Fprintf(&rules, "  - {record: 'q:%d', expr: %q}\n", i, replaced.Replace(expr))
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	promtool(t, "check", "rules", "--lint=none", file)
}
