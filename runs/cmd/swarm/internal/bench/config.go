package bench

import (
	"errors"
	"slices"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/bounds"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// The notify modes, in the order to show them in.
var modes = []string{string(impl.NotifyModeSerial), string(impl.NotifyModeBatched), string(impl.NotifyModeOff)}

const maxLatency = 10 * time.Second

// Config says what to compare, and at which distance.
type Config struct {
	// Modes to compare.
	Modes []string
	// Repeat is the number of rounds.
	Repeat int
	// RTT is the time that a round trip between service and database takes on the wire, and Jitter by how much it may be longer.
	RTT, Jitter time.Duration
	// CommitLatency is how much longer a commit takes than on this machine's storage; 0: not at all.
	CommitLatency time.Duration
	// Service is the program to start; empty: built from the source that this program is run in.
	Service string
	// Load of each trial; its endpoint is set by the trial.
	Load load.Config
}

// DefaultConfig takes less than five minutes on two cores.
func DefaultConfig() Config {
	cfg := Config{Modes: slices.Clone(modes), Repeat: 3, RTT: 4100 * time.Microsecond, Load: load.DefaultConfig()}
	cfg.Load.Runs, cfg.Load.Actions, cfg.Load.Parallel = 2000, 50, 10
	cfg.Load.Duration = 15 * time.Second
	return cfg
}

// Validate names the fields that are wrong, as their flags are called, and their bounds.
func (c Config) Validate() error {
	return errors.Join(
		bounds.Distinct("modes", c.Modes, modes),
		bounds.Between("repeat", c.Repeat, 1, 1000),
		bounds.Between("rtt", c.RTT, 0, maxLatency),
		bounds.Between("jitter", c.Jitter, 0, maxLatency),
		bounds.Between("commit-latency", c.CommitLatency, 0, maxLatency),
		c.Load.Validate(),
	)
}
