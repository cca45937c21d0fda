package impl

import (
	"errors"
	"fmt"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// NotifyMode says how committed changes are announced.
type NotifyMode string

const (
	// NotifyModeBatched lets changes gather while a statement is under way and sends up to 1,000 in the next one. A writer never waits, and
	// nothing is given up for having failed.
	NotifyModeBatched NotifyMode = "batched"
	// NotifyModeSerial sends one payload per round trip; a writer waits while 256 are queued. It is the measure that other modes are
	// compared with.
	NotifyModeSerial NotifyMode = "serial"
	// NotifyModeOff sends nothing: no watcher of any replica hears of changes made here. It shows what announcing costs.
	NotifyModeOff NotifyMode = "off"
)

// NotifyConfig says how committed changes are announced. The zero value is mode batched with its defaults.
type NotifyConfig struct {
	Mode NotifyMode `yaml:"mode" desc:"how committed changes are announced: batched; serial, a round trip for each, for comparison; off, not at all" enum:"batched,serial,off"`
	// DialTimeout and ExecTimeout are those of mode batched. Longer ones stay longer with a dead connection, shorter ones give up a slow
	// server.
	DialTimeout time.Duration `yaml:"dialTimeout" desc:"longest time until a connection of the pump is ready to send (duration)"`
	ExecTimeout time.Duration `yaml:"execTimeout" desc:"longest time that the pump waits for the answer to one statement before it replaces the connection and sends again (duration)"`
}

// WithDefaults returns a copy in which unset fields have their default.
func (c NotifyConfig) WithDefaults() NotifyConfig {
	if c.Mode == "" {
		c.Mode = NotifyModeBatched
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = pgnotify.DefaultDialTimeout
	}
	if c.ExecTimeout == 0 {
		c.ExecTimeout = pgnotify.DefaultExecTimeout
	}
	return c
}

// Validate names every field that is out of its bounds.
func (c NotifyConfig) Validate() error {
	var problems []error
	switch c.Mode {
	case NotifyModeBatched, NotifyModeSerial, NotifyModeOff:
	default:
		problems = append(problems, fmt.Errorf("mode: %q is none of %s, %s, %s", c.Mode, NotifyModeBatched, NotifyModeSerial, NotifyModeOff))
	}
	if c.DialTimeout <= 0 {
		problems = append(problems, fmt.Errorf("dialTimeout: %s is not above 0", c.DialTimeout))
	}
	if c.ExecTimeout <= 0 {
		problems = append(problems, fmt.Errorf("execTimeout: %s is not above 0", c.ExecTimeout))
	}
	return errors.Join(problems...)
}

// Option changes how a repository works.
type Option func(*settings)

type settings struct {
	notify NotifyConfig
}

// WithNotifyConfig sets how committed changes are announced.
func WithNotifyConfig(config NotifyConfig) Option {
	return func(s *settings) { s.notify = config }
}
