package fanout

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
)

// Verdict says whether every listener has heard every payload of its channel exactly once, in order per notifier.
type Verdict struct {
	Expected   int64 `json:"expected"`   // what the listeners should have heard, all together
	Received   int64 `json:"received"`   // of these, what they have
	Lost       int64 `json:"lost"`       // of these, what they have not
	Duplicated int64 `json:"duplicated"` // heard again
	Reordered  int64 `json:"reordered"`  // heard after a later one of the same notifier
	Foreign    int64 `json:"foreign"`    // heard, but never sent
	// Unfinished are the listeners that did not come to the end: too slow, hanging, or cut off.
	Unfinished int `json:"unfinishedListeners"`
	// Failures are what went wrong meanwhile: a connection that broke, a statement that failed.
	Failures []string `json:"failures,omitempty"`
}

// hearing is what one listener is judged by.
type hearing struct {
	listener int
	channel  int
	by       []tracker // per notifier
	foreign  int64     // payloads that are none of ours
	ended    bool      // heard the end
	err      error     // why not
}

// judge compares what was heard with what was sent: sent[notifier][channel] counts confirmed payloads.
func judge(hearings []*hearing, sent [][]int64) Verdict {
	var v Verdict
	for _, h := range hearings {
		v.Foreign += h.foreign
		for notifier := range h.by {
			t, n := &h.by[notifier], sent[notifier][h.channel]
			v.Expected += n
			v.Received += t.heard(n)
			v.Duplicated += t.duplicated
			v.Reordered += t.reordered
			v.Foreign += t.beyond(n)
		}
		if !h.ended {
			v.Unfinished++
			v.Failures = append(v.Failures, fmt.Sprintf("listener %d: %v", h.listener, h.err))
		}
	}
	v.Lost = v.Expected - v.Received
	return v
}

// Err says what is wrong, nil when nothing is. A run in which nothing was to be heard proves nothing.
func (v Verdict) Err() error {
	var wrong []string
	for _, c := range []struct {
		n    int64
		what string
	}{
		{v.Lost, "lost"}, {v.Duplicated, "heard twice"}, {v.Reordered, "out of order"}, {v.Foreign, "never sent"},
		{int64(v.Unfinished), "listeners did not come to the end"},
	} {
		if c.n > 0 {
			wrong = append(wrong, report.Count(c.n)+" "+c.what)
		}
	}
	if v.Expected == 0 {
		wrong = append(wrong, "nothing was sent")
	}
	wrong = append(wrong, v.Failures...)
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}
