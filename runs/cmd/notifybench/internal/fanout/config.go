// Package fanout is the classic load on LISTEN and NOTIFY: notifiers send as fast as they can, on several channels by turns,
// and every listener of a channel is to hear every payload of it once, in the order in which its notifier sent them.
//
//	begin ──► every listener has heard it ──► notifiers send ──► all is confirmed ──► end ──► every listener has heard it
//
// The server delivers in the order of commits, so a listener that has heard the end will hear nothing more of the run: what it
// lacks then is lost, and there is no guessing how long to wait.
package fanout

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/bounds"
)

// The modes: how a payload gets to the server.
const (
	Single  = "single"  // a statement and transaction for each, on a connection for each notifier
	Batched = "batched" // through pgnotify: one pump on one connection for all notifiers
)

// Modes are all of them.
var Modes = []string{Single, Batched}

// Config is the size of the load.
type Config struct {
	Listeners int           `json:"listeners"` // listener l listens on channel l mod Channels
	Notifiers int           `json:"notifiers"`
	Channels  int           `json:"channels"`
	Duration  time.Duration `json:"durationNs"` // of the sending, in each run
	Settle    time.Duration `json:"settleNs"`   // longest time, after the sending, until the listeners have heard all
	Pending   int           `json:"pending"`    // payloads not yet confirmed that all notifiers together may have in mode batched
	Modes     []string      `json:"modes"`
	Rounds    int           `json:"rounds"`
}

// DefaultConfig compares the modes within a minute.
func DefaultConfig() Config {
	return Config{
		Listeners: 10, Notifiers: 10, Channels: 5, Duration: 5 * time.Second, Settle: 30 * time.Second, Pending: 2000,
		Modes: slices.Clone(Modes), Rounds: 3,
	}
}

// Connections is how many the load needs, the one that marks begin and end included.
func (c Config) Connections() int { return c.Listeners + c.Notifiers + 1 }

// Validate names what is out of bounds.
func (c Config) Validate() error {
	var deaf error
	if c.Channels > c.Listeners {
		deaf = fmt.Errorf("channels: nobody would hear some of the %d channels with %d listeners", c.Channels, c.Listeners)
	}
	return errors.Join(
		bounds.Between("listeners", c.Listeners, 1, 10_000),
		bounds.Between("notifiers", c.Notifiers, 1, 10_000),
		bounds.Between("channels", c.Channels, 1, 10_000),
		bounds.Between("pending", c.Pending, 1, 1_000_000),
		bounds.Between("repeat", c.Rounds, 1, 1000),
		deaf,
		bounds.Between("duration", c.Duration, 10*time.Millisecond, time.Hour),
		bounds.Between("settle", c.Settle, time.Second, time.Hour),
		bounds.Distinct("mode", c.Modes, Modes),
	)
}
