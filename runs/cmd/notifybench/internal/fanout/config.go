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
	"strings"
	"time"
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
	var wrong []error
	between := func(name string, n, low, high int) {
		if n < low || n > high {
			wrong = append(wrong, fmt.Errorf("%s: %d is not between %d and %d", name, n, low, high))
		}
	}
	between("listeners", c.Listeners, 1, 10000)
	between("notifiers", c.Notifiers, 1, 10000)
	between("channels", c.Channels, 1, 10000)
	between("pending", c.Pending, 1, 1000000)
	between("repeat", c.Rounds, 1, 1000)
	if c.Channels > c.Listeners {
		wrong = append(wrong, fmt.Errorf("channels: nobody would hear some of the %d channels with %d listeners", c.Channels, c.Listeners))
	}
	if c.Duration < 10*time.Millisecond || c.Duration > time.Hour {
		wrong = append(wrong, fmt.Errorf("duration: %s is not between 10ms and 1h", c.Duration))
	}
	if c.Settle < time.Second || c.Settle > time.Hour {
		wrong = append(wrong, fmt.Errorf("settle: %s is not between 1s and 1h", c.Settle))
	}
	wrong = append(wrong, checkModes(c.Modes))
	return errors.Join(wrong...)
}

func checkModes(modes []string) error {
	if len(modes) == 0 {
		return fmt.Errorf("mode: none is given, there are %s", strings.Join(Modes, ", "))
	}
	for i, mode := range modes {
		if !slices.Contains(Modes, mode) {
			return fmt.Errorf("mode: %q is none of %s", mode, strings.Join(Modes, ", "))
		}
		if slices.Contains(modes[:i], mode) {
			return fmt.Errorf("mode: %s is named twice; --repeat runs modes again", mode)
		}
	}
	return nil
}
