package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// The notify modes, in the order to show them in.
var modes = []string{string(impl.NotifyModeSerial), string(impl.NotifyModeBatched), string(impl.NotifyModeOff)}

const (
	maxRepeat  = 1_000
	maxLatency = 10 * time.Second
)

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

// Validate names the first field that is wrong, as its flag is called, and its bounds.
func (c Config) Validate() error {
	if len(c.Modes) == 0 {
		return fmt.Errorf("modes: name at least one of %s", strings.Join(modes, ", "))
	}
	for i, mode := range c.Modes {
		if !slices.Contains(modes, mode) {
			return fmt.Errorf("modes: %q is none of %s", mode, strings.Join(modes, ", "))
		}
		if slices.Contains(c.Modes[:i], mode) {
			return fmt.Errorf("modes: %s is there twice", mode)
		}
	}
	if c.Repeat < 1 || c.Repeat > maxRepeat {
		return fmt.Errorf("repeat: %d is not between 1 and %d", c.Repeat, maxRepeat)
	}
	for _, one := range []struct {
		flag  string
		value time.Duration
	}{{"rtt", c.RTT}, {"jitter", c.Jitter}, {"commit-latency", c.CommitLatency}} {
		if one.value < 0 || one.value > maxLatency {
			return fmt.Errorf("%s: %v is not between 0 and %v", one.flag, one.value, maxLatency)
		}
	}
	return c.Load.Validate()
}
