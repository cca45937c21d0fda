package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny is every mode once, as small as it gets.
func tiny() Config {
	cfg := DefaultConfig()
	cfg.Repeat, cfg.RTT, cfg.Jitter = 1, time.Millisecond, time.Millisecond
	cfg.Load.Runs, cfg.Load.Actions, cfg.Load.Concurrency, cfg.Load.Parallel, cfg.Load.ActionWatchers = 2, 10, 4, 2, 2
	cfg.Load.Duration, cfg.Load.Settle = 0, time.Minute
	return cfg
}

// Not one figure of speed: whether the arrangement works, and whether everybody is told everything.
func TestEveryModeOnce(t *testing.T) {
	t.Setenv("FLYTE_RUNS_NOTIFY_MODE", "telepathy") // not for the services of a comparison
	b, err := New(tiny(), "swarm bench --tiny")
	require.NoError(t, err)
	set, err := b.Run(t.Context())
	require.NoError(t, err)

	assert.False(t, set.Interrupted)
	assert.Equal(t, "swarm bench --tiny", set.Command)
	assert.Equal(t, []trial.Pair{{Subject: "batched", Reference: "serial"}, {Subject: "batched", Reference: "off"}}, set.Pairs)
	require.Len(t, set.Trials, 3)
	for _, one := range set.Trials {
		assert.Empty(t, one.Void, one.Side)
		assert.EqualValues(t, 2, one.Load.RunsFinished, one.Side)
		assert.Equal(t, load.Written{Actions: 22, Ended: 22, Events: 80}, one.Rows.Stored, one.Side)
		assert.Positive(t, one.Wire.All.RoundTrips, one.Side)
		assert.NotEmpty(t, one.Samples, one.Side)
		never, watchers := one.Load.Never()
		if one.Side == "off" {
			assert.Zero(t, one.Wire.Pump.Statements)
			continue
		}
		assert.Zero(t, never, one.Side)
		assert.EqualValues(t, 22+2+2, watchers, one.Side)
		assert.Positive(t, one.Wire.Pump.Statements, one.Side)
		assert.Positive(t, one.Wire.Listener.Notifications, one.Side)
	}
	facts := map[string]string{}
	for _, fact := range set.Facts {
		facts[fact.Name] = fact.Value
	}
	assert.Equal(t, "1 ms per round trip, up to 1 ms more", facts["service to database"])
	assert.NotContains(t, facts["PostgreSQL"], "none")
}

func TestSlowCommits(t *testing.T) {
	cfg := tiny()
	cfg.Modes, cfg.CommitLatency = []string{"off"}, 20*time.Millisecond
	b, err := New(cfg, "")
	require.NoError(t, err)
	set, err := b.Run(t.Context())
	if _, missing := exec.LookPath("pg_receivewal"); missing != nil && err != nil {
		require.ErrorContains(t, err, "commit-latency: needs the program pg_receivewal")
		return
	}
	require.NoError(t, err)
	require.Len(t, set.Trials, 1)
	assert.Empty(t, set.Trials[0].Void)
	assert.GreaterOrEqual(t, trial.RPCOf(set.Trials[0], trial.Updates).Latency.P50, 20.0, "every update waits for a commit")
}

func TestInterruptedGivesWhatThereIs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := tiny()
	cfg.Service = "/bin/true"
	cancel()
	b, err := New(cfg, "")
	require.NoError(t, err)
	set, err := b.Run(ctx)
	require.NoError(t, err)
	assert.True(t, set.Interrupted)
	assert.Empty(t, set.Trials)
	assert.Len(t, set.Sides, 3)
}

func TestAServiceThatDoesNotStartIsQuoted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "service")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho one >&2; echo no such mode >&2; exit 3\n"), 0o755))
	cfg := tiny()
	cfg.Service, cfg.Modes = program, []string{"serial"}
	b, err := New(cfg, "")
	require.NoError(t, err)
	_, err = b.Run(t.Context())
	require.ErrorContains(t, err, "round 1, mode serial: the service ended while it started: exit status 3; its log ends in: one | no such mode")

	cfg.Service = filepath.Join(t.TempDir(), "missing")
	b, err = New(cfg, "")
	require.NoError(t, err)
	_, err = b.Run(t.Context())
	require.ErrorContains(t, err, "round 1, mode serial: start the service: ")
}

func TestPlanHasEveryModeOnceInEachRoundInManyOrders(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Repeat = 100
	b, err := New(cfg, "")
	require.NoError(t, err)
	plan := b.plan()
	require.Len(t, plan, 300)
	orders := map[string]bool{}
	for round := range 100 {
		var order []string
		for _, one := range plan[3*round : 3*round+3] {
			assert.Equal(t, round+1, one.round)
			order = append(order, one.side.Name)
		}
		orders[strings.Join(order, " ")] = true
		slices.Sort(order)
		assert.Equal(t, []string{"batched", "off", "serial"}, order)
	}
	assert.Greater(t, len(orders), 1)
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"modes: none is given, there are serial, batched, off":  func(c *Config) { c.Modes = nil },
		`modes: "quick" is none of serial, batched, off`:        func(c *Config) { c.Modes = []string{"quick"} },
		"modes: off is named twice; --repeat measures it again": func(c *Config) { c.Modes = []string{"off", "serial", "off"} },
		"repeat: 0 is not between 1 and 1000":                   func(c *Config) { c.Repeat = 0 },
		"rtt: -1s is not between 0s and 10s":                    func(c *Config) { c.RTT = -time.Second },
		"jitter: 1m0s is not between 0s and 10s":                func(c *Config) { c.Jitter = time.Minute },
		"commit-latency: 11s is not between 0s and 10s":         func(c *Config) { c.CommitLatency = 11 * time.Second },
		"k: 0 is not between 1 and 10000":                       func(c *Config) { c.Load.Runs = 0 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		_, err := New(cfg, "")
		require.EqualError(t, err, want)
	}
	require.NoError(t, DefaultConfig().Validate())
}

func TestTheDefaultFitsIntoFiveMinutes(t *testing.T) {
	cfg := DefaultConfig()
	const around = 12 * time.Second // a server, a service, and settling
	assert.LessOrEqual(t, time.Duration(cfg.Repeat*len(cfg.Modes))*(cfg.Load.Duration+around), 5*time.Minute)
}
