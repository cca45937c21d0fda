package test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// The load client as users start it, against the service: everything finishes, every watcher sees it, no call fails.
func TestSwarmFinishesClean(t *testing.T) {
	s := startService(t, impl.NotifyModeSerial, pgproxy.Options{})
	ctx := testContext(t)
	program := filepath.Join(t.TempDir(), "swarm")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "../cmd/swarm").CombinedOutput()
	require.NoError(t, err, string(out))

	swarm := exec.CommandContext(ctx, program, "--endpoint", s.url, "--k", "3", "--n", "20", "--concurrency", "8", "--json")
	report, err := swarm.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		require.Fail(t, "swarm failed", string(failed.Stderr))
	}
	require.NoError(t, err)
	var result struct {
		RunsFinished, ActionsFinished int
		Settled                       bool
		RPCs                          []struct{ Calls, Errors int }
		Watches                       []struct{ Watchers, Never int }
	}
	require.NoError(t, json.Unmarshal(report, &result))
	assert.Equal(t, 3, result.RunsFinished)
	assert.Equal(t, 60, result.ActionsFinished)
	assert.True(t, result.Settled)
	assert.Len(t, result.RPCs, 4)
	for _, rpc := range result.RPCs {
		assert.Positive(t, rpc.Calls)
		assert.Zero(t, rpc.Errors)
	}
	assert.Len(t, result.Watches, 3)
	for _, watch := range result.Watches {
		assert.Positive(t, watch.Watchers)
		assert.Zero(t, watch.Never)
	}
}
