package load

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func small(endpoint string) Config {
	cfg := DefaultConfig()
	cfg.Endpoint = endpoint
	cfg.Runs, cfg.Actions, cfg.Concurrency, cfg.Parallel, cfg.ActionWatchers = 4, 7, 6, 2, 5
	return cfg
}

func drive(ctx context.Context, t *testing.T, cfg Config) *Result {
	t.Helper()
	l, err := New(cfg)
	require.NoError(t, err)
	result, err := l.Run(ctx)
	require.NoError(t, err)
	return result
}

func calls(r *Result, name string) measure.RPC {
	for _, rpc := range r.RPCs {
		if rpc.Name == name {
			return rpc
		}
	}
	return measure.RPC{}
}

func watchOf(t *testing.T, r *Result, stream string) WatchResult {
	t.Helper()
	for _, w := range r.Watches {
		if w.Stream == stream {
			return w
		}
	}
	t.Fatalf("no %s in the result", stream)
	return WatchResult{}
}

func TestWholeLoad(t *testing.T) {
	for _, protocol := range []string{ProtocolGRPC, ProtocolGRPCWeb, ProtocolConnect} {
		t.Run(protocol, func(t *testing.T) {
			f, endpoint := startFake(t)
			cfg := small(endpoint)
			cfg.Protocol = protocol
			r := drive(t.Context(), t, cfg)
			require.NoError(t, r.Verdict())
			assert.EqualValues(t, 4, r.RunsFinished)
			assert.EqualValues(t, 28, r.ActionsFinished)
			assert.Equal(t, Written{Actions: 32, Ended: 32, Events: 28 * 4}, r.Written)
			assert.EqualValues(t, 32, calls(r, "RecordAction").Calls)
			assert.EqualValues(t, 28*3+4*2, calls(r, "UpdateActionStatus").Calls)
			assert.Positive(t, calls(r, "UpdateActionStatus").Latency.P50)
			assert.Equal(t, 28*4, f.events+f.proxied)
			assert.Positive(t, f.events)
			assert.Positive(t, f.proxied)
			for stream, want := range map[string]int64{"WatchActions": 32, "WatchRuns": 4, "WatchActionDetails": 5} {
				w := watchOf(t, r, stream)
				assert.Equal(t, want, w.Watchers, stream)
				assert.Zero(t, w.Never, stream)
				assert.Equal(t, want, w.Lag.Count, stream)
			}
			assert.True(t, r.Settled)
			for name, phase := range f.phases {
				assert.Equal(t, common.ActionPhase_ACTION_PHASE_SUCCEEDED, phase, name)
				assert.LessOrEqual(t, len(strings.Split(name, "/")[0]), 30)
			}
		})
	}
}

func TestWatcherThatNeverSees(t *testing.T) {
	f, endpoint := startFake(t)
	f.hide = func(id *common.ActionIdentifier) bool { return id.GetName() == "a3" }
	cfg := small(endpoint)
	cfg.Settle, cfg.ActionWatchers = 50*time.Millisecond, 0
	r := drive(t.Context(), t, cfg)
	w := watchOf(t, r, "WatchActions")
	assert.EqualValues(t, 32, w.Watchers)
	assert.EqualValues(t, 4, w.Never)
	assert.False(t, r.Settled)
	assert.GreaterOrEqual(t, r.SettleSeconds, 0.05)
	require.ErrorContains(t, r.Verdict(), "4 of 36 watchers did not see the terminal phase")
}

func TestFailuresAreCountedByRPCAndCode(t *testing.T) {
	f, endpoint := startFake(t)
	running := common.ActionPhase_ACTION_PHASE_RUNNING
	f.update = func(r *workflow.UpdateActionStatusRequest) error {
		if r.GetActionId().GetName() == "a1" && r.GetStatus().GetPhase() == running {
			return connect.NewError(connect.CodeResourceExhausted, errors.New("too many"))
		}
		return nil
	}
	f.inBand = func(r *workflow.UpdateActionStatusRequest) string {
		if r.GetActionId().GetName() == "a2" && r.GetStatus().GetPhase() == running {
			return "disk full"
		}
		return ""
	}
	r := drive(t.Context(), t, small(endpoint))
	assert.EqualValues(t, 8, calls(r, "UpdateActionStatus").Errors)
	require.Len(t, r.Failures, 2)
	assert.Equal(t, measure.Failure{RPC: "UpdateActionStatus", Code: "internal (in band)", Count: 4, Sample: "disk full"}, r.Failures[0])
	assert.Equal(t, "resource_exhausted", r.Failures[1].Code)
	assert.EqualValues(t, 20, r.ActionsFinished)
	assert.EqualValues(t, 4, r.RunsFinished, "a run with failed actions ends, as failed")
	require.ErrorContains(t, r.Verdict(), "8 calls failed")
	for name, phase := range f.phases {
		if strings.HasSuffix(name, "/"+rootName) {
			assert.Equal(t, common.ActionPhase_ACTION_PHASE_FAILED, phase)
		}
	}
}

func TestStreamThatEndsEarlyIsAFailure(t *testing.T) {
	f, endpoint := startFake(t)
	var once sync.Once
	f.update = func(*workflow.UpdateActionStatusRequest) error {
		once.Do(f.endStreams)
		return nil
	}
	cfg := small(endpoint)
	cfg.Settle = 50 * time.Millisecond
	r := drive(t.Context(), t, cfg)
	assert.Positive(t, calls(r, "WatchRuns").Errors)
	require.Error(t, r.Verdict())
}

func TestDurationEndsTheLoad(t *testing.T) {
	_, endpoint := startFake(t)
	cfg := small(endpoint)
	cfg.Actions, cfg.Duration = maxActions, 3*time.Second // for a machine that is busy
	r := drive(t.Context(), t, cfg)
	assert.True(t, r.TimeBoxed)
	assert.Positive(t, r.ActionsFinished)
	assert.Zero(t, r.RunsFinished)
	require.NoError(t, r.Verdict())
}

func TestInterruptGivesTheResultSoFar(t *testing.T) {
	f, endpoint := startFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	var updates atomic.Int64
	f.update = func(*workflow.UpdateActionStatusRequest) error {
		if updates.Add(1) == 40 {
			cancel()
		}
		return nil
	}
	r := drive(ctx, t, small(endpoint))
	assert.True(t, r.Interrupted)
	assert.Empty(t, r.Failures, "calls that our end cut off are no failures of the service")
	assert.Positive(t, calls(r, "UpdateActionStatus").Calls)
	require.NoError(t, r.Verdict())
}

func TestUnreachableEndpoint(t *testing.T) {
	l, err := New(small("http://127.0.0.1:1"))
	require.NoError(t, err)
	_, err = l.Run(t.Context())
	require.ErrorContains(t, err, "no runs service answers at http://127.0.0.1:1: ")
}

func TestInvocationsDoNotCollide(t *testing.T) {
	now := time.Now()
	assert.NotEqual(t, newInvocation(now), newInvocation(now))
	r := newRun(DefaultConfig(), newInvocation(now), maxRuns)
	assert.LessOrEqual(t, len(r.id.GetName()), 30)
}

func TestRunKnowsItsActions(t *testing.T) {
	r := newRun(small(""), "x", 1)
	assert.Equal(t, 0, r.number(rootName))
	assert.Equal(t, 7, r.number(actionName(7)))
	for _, other := range []string{"", "a", "a8", "a-1", "b1", "1"} {
		assert.Equal(t, -1, r.number(other), other)
	}
}
