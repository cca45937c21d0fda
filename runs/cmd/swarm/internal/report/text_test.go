package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
)

func result() *load.Result {
	cfg := load.DefaultConfig()
	cfg.Runs, cfg.Actions = 2, 10
	return &load.Result{
		Config: cfg, Seconds: 2, TimeBoxed: true, RunsFinished: 1, ActionsFinished: 15,
		RPCs: []measure.RPC{
			{Name: "UpdateActionStatus", Calls: 30, Errors: 1, Rate: 14.5,
				Latency: measure.Summary{Count: 29, Mean: 4.25, P50: 4, P95: 8, P99: 9, Max: 12}},
			{Name: "Record", Calls: 1, Errors: 1},
		},
		Failures: []measure.Failure{{RPC: "Record", Code: "unavailable", Count: 1, Sample: "gone"}},
		Watches: []load.WatchResult{{Stream: "WatchActions", Streams: 2, Watchers: 15, Never: 3,
			Lag: measure.Summary{Count: 12, P50: 1, P95: 2, P99: 3, Max: 4}}},
		SettleSeconds: 30,
	}
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Text(&out, result()))
	got := out.String()
	for _, want := range []string{
		"2 runs × 10 actions, 50 at a time",
		"time box over in 2.0 s: runs finished 1/2, actions finished 15/20",
		"UpdateActionStatus     30       1   14.5      4.2     4.0     8.0     9.0    12.0",
		"never saw it",
		"not settled: 3 of 15 watchers had not seen it 30.0 s after the last answer",
		"1 × Record: unavailable, first: gone",
	} {
		assert.Contains(t, got, want)
	}
	settled := result()
	settled.Settled, settled.SettleSeconds, settled.TimeBoxed, settled.Interrupted = true, 0.25, false, true
	out.Reset()
	require.NoError(t, Text(&out, settled))
	assert.Contains(t, out.String(), "settled 0.250 s after the last answer")
	assert.Contains(t, out.String(), "interrupted in 2.0 s")
}

func TestJSONReadsBack(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, JSON(&out, result()))
	var back load.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, *result(), back)
}
