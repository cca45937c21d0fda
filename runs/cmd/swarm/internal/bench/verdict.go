package bench

import (
	"fmt"

	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

// verdict says why the figures of a trial mean nothing; nil when they stand.
func verdict(t *trial.Trial, side trial.Side) (void []string) {
	say := func(format string, args ...any) { void = append(void, fmt.Sprintf(format, args...)) }
	var failed int64
	for _, f := range t.Load.Failures {
		failed += f.Count
	}
	if failed > 0 {
		first := t.Load.Failures[0]
		say("%d calls failed, the first as %s: %s: %s", failed, first.RPC, first.Code, first.Sample)
	}
	if t.Load.Written.Ended == 0 {
		say("no action ended within the time: nothing was measured")
	}
	if e, s := t.Rows.Expected, t.Rows.Stored; e != s {
		say("rows expected by the answers ≠ rows stored: %d ≠ %d actions, %d ≠ %d of them ended, %d ≠ %d events",
			e.Actions, s.Actions, e.Ended, s.Ended, e.Events, s.Events)
	}
	never, of := t.Load.Never()
	sent := t.Wire.Pump.Statements // what the listener received has the service's self-tests in it
	switch {
	case side.Unwatched && sent > 0:
		say("the pump sent %d statements, in the mode that sends none", sent)
	case side.Unwatched:
	case never > 0:
		say("coverage %.4f: %d of %d watchers had not seen the end %.1f s after the last answer",
			1-float64(never)/float64(of), never, of, t.Load.SettleSeconds)
	}
	return void
}
