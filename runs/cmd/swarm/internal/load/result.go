package load

import (
	"fmt"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
)

// Result is what a load measured.
type Result struct {
	Config  Config    `json:"config"`
	Started time.Time `json:"started"`
	// Seconds from the first call to the last answer.
	Seconds float64 `json:"seconds"`
	// TimeBoxed: the duration ended the load. Interrupted: the user did.
	TimeBoxed   bool `json:"timeBoxed"`
	Interrupted bool `json:"interrupted"`

	RunsFinished    int64 `json:"runsFinished"`
	ActionsFinished int64 `json:"actionsFinished"`
	// Written is what the database has to hold, by the answers.
	Written Written `json:"written"`

	RPCs     []measure.RPC     `json:"rpcs"`
	Failures []measure.Failure `json:"failures"`
	Watches  []WatchResult     `json:"watches"`
	// Settled: all watchers saw what they were to see, SettleSeconds after the last answer; else how long they were waited for.
	Settled       bool    `json:"settled"`
	SettleSeconds float64 `json:"settleSeconds"`
}

// Written are the rows that successful calls stand for; equal to what is stored as long as no call failed.
type Written struct {
	// Actions recorded, the roots among them, and those of them whose terminal phase was written.
	Actions int64 `json:"actions"`
	Ended   int64 `json:"ended"`
	// Events reported.
	Events int64 `json:"events"`
}

// WatchResult is what the watchers of one kind of stream saw.
type WatchResult struct {
	Stream string `json:"stream"`
	// Streams opened.
	Streams int64 `json:"streams"`
	// Watchers to see a terminal phase, and those of them that never did.
	Watchers int64 `json:"watchers"`
	Never    int64 `json:"never"`
	// Lag from the answer to the update until the stream showed it.
	Lag measure.Summary `json:"lag"`
}

func (l *Load) result(begin time.Time, elapsed, settle time.Duration, settled, boxed, interrupted bool) *Result {
	r := &Result{
		Config: l.cfg, Started: begin, Seconds: elapsed.Seconds(),
		TimeBoxed: boxed, Interrupted: interrupted,
		RunsFinished: l.finishedRuns.Load(), ActionsFinished: l.finishedActions.Load(),
		Written: Written{Actions: l.recorded.Load(), Ended: l.ended.Load(), Events: l.events.Load()},
		RPCs:    l.recorder.RPCs(elapsed), Failures: l.recorder.Failures(),
		Settled: settled, SettleSeconds: settle.Seconds(),
	}
	for _, w := range []*Watch{l.actionsWatch, l.runsWatch, l.detailsWatch} {
		if w.streams.Load() == 0 {
			continue
		}
		r.Watches = append(r.Watches, WatchResult{
			Stream: w.name, Streams: w.streams.Load(), Watchers: w.expected.Load(), Never: w.behind(), Lag: w.lag.Summary(),
		})
	}
	return r
}

// Never is the number of watchers, of all kinds, that never saw the terminal phase.
func (r *Result) Never() (never, of int64) {
	for _, w := range r.Watches {
		never += w.Never
		of += w.Watchers
	}
	return never, of
}

// Verdict is nil when the load did what it was to do: no call failed, every watcher saw its terminal phase, and every run finished
// unless a time box or the user ended it before.
func (r *Result) Verdict() error {
	var failed int64
	for _, f := range r.Failures {
		failed += f.Count
	}
	never, of := r.Never()
	switch {
	case failed > 0:
		return fmt.Errorf("%d calls failed, the first as %s: %s: %s", failed, r.Failures[0].RPC, r.Failures[0].Code, r.Failures[0].Sample)
	case never > 0 && !r.Interrupted:
		return fmt.Errorf("%d of %d watchers did not see the terminal phase within %.1f s", never, of, r.SettleSeconds)
	case r.RunsFinished < int64(r.Config.Runs) && !r.TimeBoxed && !r.Interrupted:
		return fmt.Errorf("%d of %d runs finished", r.RunsFinished, r.Config.Runs)
	}
	return nil
}
