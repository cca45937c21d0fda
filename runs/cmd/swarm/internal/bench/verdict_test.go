package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

func TestVerdict(t *testing.T) {
	watched, unwatched := trial.Side{Name: "batched"}, trial.Side{Name: "off", Unwatched: true}
	written := load.Written{Actions: 10, Ended: 9, Events: 40}
	for name, c := range map[string]struct {
		side   trial.Side
		change func(*trial.Trial)
		want   []string
	}{
		"nothing wrong": {side: watched, change: func(*trial.Trial) {}},
		"a row less": {watched, func(t *trial.Trial) { t.Rows.Stored.Ended = 8 },
			[]string{"rows expected by the answers ≠ rows stored: 10 ≠ 10 actions, 9 ≠ 8 of them ended, 40 ≠ 40 events"}},
		"a row more": {unwatched, func(t *trial.Trial) { t.Rows.Stored.Events = 41 },
			[]string{"rows expected by the answers ≠ rows stored: 10 ≠ 10 actions, 9 ≠ 9 of them ended, 40 ≠ 41 events"}},
		"a watcher that was not told": {watched, func(t *trial.Trial) { t.Load.Watches[0].Never = 1 },
			[]string{"coverage 0.8889: 1 of 9 watchers had not seen the end 0.0 s after the last answer"}},
		"nobody is told, by design": {unwatched, func(t *trial.Trial) { t.Load.Watches[0].Never, t.Wire.Pump.Statements = 9, 0 }, nil},
		"somebody is told, in the mode that tells nobody": {side: unwatched, change: func(*trial.Trial) {},
			want: []string{"the pump sent 100 statements, in the mode that sends none"}},
		"failed calls, and nothing measured": {watched, func(t *trial.Trial) {
			t.Load.Failures = []measure.Failure{{RPC: "Record", Code: "internal", Count: 3, Sample: "disk full"}, {RPC: "Other", Count: 1}}
			t.Load.Written, t.Rows.Expected, t.Rows.Stored = load.Written{}, load.Written{}, load.Written{}
		}, []string{"4 calls failed, the first as Record: internal: disk full", "no action ended within the time: nothing was measured"}},
	} {
		t.Run(name, func(t *testing.T) {
			one := &trial.Trial{
				Load: &load.Result{Written: written, Watches: []load.WatchResult{{Stream: "WatchActions", Watchers: 9}}},
				Rows: &trial.Rows{Expected: written, Stored: written},
				Wire: &trial.Wire{Pump: trial.Traffic{Statements: 100}},
			}
			if c.side.Unwatched && c.want == nil || name == "a row more" {
				one.Wire.Pump.Statements = 0
			}
			c.change(one)
			assert.Equal(t, c.want, verdict(one, c.side))
		})
	}
}
