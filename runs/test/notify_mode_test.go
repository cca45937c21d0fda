package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

const (
	rtt     = 4 * time.Millisecond
	actions = 1_000
)

// updateMany records a run of many actions, then moves each to RUNNING, and says how long these updates took until answered.
func updateMany(t *testing.T, s *service) (took time.Duration) {
	t.Helper()
	c := s.client(t)
	ctx := testContext(t)
	run := runID("many")
	require.NoError(t, c.record(ctx, run, 0))
	each(t, actions, func(number int) error { return c.record(ctx, run, number) })
	begin := time.Now()
	each(t, actions, func(number int) error { return c.update(ctx, run, number, running) })
	return time.Since(begin)
}

// In mode serial each payload costs a statement and a round trip, and writers wait for the pump: that is the bottleneck. What is
// asserted are bounds that the round-trip time alone sets, however slow the machine is.
func TestSerialIsBoundByTheRoundTrip(t *testing.T) {
	s := startService(t, impl.NotifyModeSerial, pgproxy.Options{RTT: rtt})
	took := updateMany(t, s)
	const queue = 256 // payloads that wait without making a writer wait
	assert.Greater(t, took, (actions-queue-16)*rtt, "writers wait for the pump")

	// The last of them leave after the last answer.
	waitFor(t, "a statement per update", func() bool { return s.proxy.Stats().Matching("notify-pump").Statements >= actions })
	pump := s.proxy.Stats().Matching("notify-pump")
	assert.EqualValues(t, 1, pump.Connections)
	assert.GreaterOrEqual(t, pump.RoundTrips, pump.Statements-1, "one round trip each")
	waitFor(t, "a notification per update", func() bool {
		return s.proxy.Stats().Matching("notify-listener").Notifications >= actions
	})
}

func TestOffSendsNothing(t *testing.T) {
	s := startService(t, impl.NotifyModeOff, pgproxy.Options{RTT: rtt})
	took := updateMany(t, s)
	assert.Zero(t, s.proxy.Stats().Matching("notify-pump"), "what there is of it, connections included")
	t.Logf("%d updates answered in %v; serial needs at least %v", actions, took, (actions-256)*rtt)
}

func TestSerialReachesEveryWatcher(t *testing.T) {
	s := startService(t, impl.NotifyModeSerial, pgproxy.Options{RTT: rtt})
	c := s.client(t)
	ctx := testContext(t)
	const n = 50 // below the room of a subscriber: none is to be dropped
	run := runID("watched")
	require.NoError(t, c.record(ctx, run, 0))
	each(t, n, func(number int) error { return c.record(ctx, run, number) })
	var watchers []*stream[workflow.WatchActionsResponse]
	for range 5 {
		w := s.client(t).watchActions(t, run)
		w.begun(t)
		watchers = append(watchers, w)
	}
	each(t, n, func(number int) error { return c.update(ctx, run, number, succeeded) })
	for _, w := range watchers {
		w.until(t, "all actions succeeded", func(messages []*workflow.WatchActionsResponse) bool {
			return shownIn(succeeded, messages) == n
		})
	}
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.Fail(t, "did not come: "+what)
		}
	}
}
