package bench

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

const gitTimeout = 10 * time.Second

// facts are what one has to know to understand the figures, or to get them again.
func (b *Bench) facts(ctx context.Context, postgres string) []trial.Fact {
	c := b.cfg
	network := milliseconds(c.RTT) + " per round trip"
	if c.Jitter > 0 {
		network += ", up to " + milliseconds(c.Jitter) + " more"
	}
	commit := "as this machine's disk lets them (fsync on)"
	if c.CommitLatency > 0 {
		commit += ", and for a synchronous pg_receivewal at " + milliseconds(c.CommitLatency)
	}
	length := "until all runs have ended"
	if c.Load.Duration > 0 {
		length = fmt.Sprintf("%v, begun actions are ended", c.Load.Duration)
	}
	return []trial.Fact{
		{Name: "source", Value: cmp.Or(revision(ctx), "unknown revision")},
		{Name: "service", Value: cmp.Or(c.Service, "built from this source") + ", a process of its own for each trial"},
		{Name: "PostgreSQL", Value: cmp.Or(postgres, "none started") + ", a fresh server for each trial"},
		{Name: "service to database", Value: network},
		{Name: "commits wait", Value: commit},
		{Name: "load", Value: fmt.Sprintf("up to %d runs × %d actions, %d runs and %d actions at a time, events %s by %d, over %s",
			c.Load.Runs, c.Load.Actions, c.Load.Parallel, c.Load.Concurrency, c.Load.Events, c.Load.EventBatch, c.Load.Protocol)},
		{Name: "length of a trial", Value: length},
		{Name: "rounds", Value: fmt.Sprintf("%d, each with every mode once, in random order", c.Repeat)},
	}
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%g ms", float64(d)/float64(time.Millisecond))
}

// revision is the commit that this program is run in; empty when that cannot be told.
func revision(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	commit := git("rev-parse", "--short=12", "HEAD")
	if commit != "" && git("status", "--porcelain", "--untracked-files=no") != "" {
		commit += " with changes"
	}
	return commit
}
