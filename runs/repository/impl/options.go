package impl

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
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

// NotifyConfig says how committed changes are announced and heard. The zero value is mode batched with its defaults.
type NotifyConfig struct {
	Mode NotifyMode `yaml:"mode" desc:"how committed changes are announced: batched; serial, a round trip for each, for comparison; off, not at all" enum:"batched,serial,off"`
	// DialTimeout is for the pump in mode batched and for the listener, ExecTimeout for mode batched. Longer ones stay longer with a dead
	// connection, shorter ones give up a slow server.
	DialTimeout time.Duration `yaml:"dialTimeout" desc:"longest time until a connection of the pump is ready to send, or one of the listener is made (duration)"`
	ExecTimeout time.Duration `yaml:"execTimeout" desc:"longest time that the pump waits for the answer to one statement before it replaces the connection and sends again (duration)"`

	// PumpDSN is for a database behind a pooler in transaction mode too: the pump prepares statements and sets parameters of its session.
	PumpDSN string `yaml:"pumpDSN" desc:"connection string of the pump, when it differs from the database's: it must lead to the same server without a pooler in transaction mode" secret:"true"`
	// ListenDSN is for a database behind a pooler in transaction mode, through which the rest of the service may go but LISTEN cannot.
	ListenDSN string `yaml:"listenDSN" desc:"connection string of the listener, when it differs from the database's: it must lead to the same server without a pooler in transaction mode" secret:"true"`
	// CatchUpInterval bounds how long a change stays unnoticed whose process was killed before it could announce it. Each catch-up reads the
	// rows written since the last one, by index.
	CatchUpInterval time.Duration `yaml:"catchUpInterval" desc:"time between two searches for changes that nobody announced (duration)"`
	CatchUpOverlap  time.Duration `yaml:"catchUpOverlap" desc:"how far each search reaches back behind the last one: longer than a write takes from its stamp to its commit (duration)"`
	// PingInterval and PingTimeout together are the time until a listener's connection that has died silently is replaced.
	PingInterval time.Duration `yaml:"pingInterval" desc:"silence after which the listener asks whether the server is still there (duration)"`
	PingTimeout  time.Duration `yaml:"pingTimeout" desc:"longest time that the listener waits for an answer before it replaces the connection (duration)"`
	// ReplayWindow covers the time between the reading of a list and the registration of the watch that keeps it up to date.
	ReplayWindow time.Duration `yaml:"replayWindow" desc:"how far back a new watcher is told what changed just before it came (duration)"`
	// BacklogPayloads and BacklogBytes are per channel. Beyond them a watcher that is far behind is told by a search in the database.
	BacklogPayloads int `yaml:"backlogPayloads" desc:"most different notifications that are kept in memory for watchers that are new or behind"`
	BacklogBytes    int `yaml:"backlogBytes" desc:"most memory that they may take (bytes)"`
}

// WithDefaults returns a copy in which unset fields have their default.
func (c NotifyConfig) WithDefaults() NotifyConfig {
	if c.Mode == "" {
		c.Mode = NotifyModeBatched
	}
	for _, duration := range c.durations() {
		if *duration.field == 0 {
			*duration.field = duration.fallback
		}
	}
	if c.BacklogPayloads == 0 {
		c.BacklogPayloads = pgnotify.DefaultMaxPayloads
	}
	if c.BacklogBytes == 0 {
		c.BacklogBytes = pgnotify.DefaultMaxBytes
	}
	return c
}

type namedDuration struct {
	name     string
	field    *time.Duration
	fallback time.Duration
}

func (c *NotifyConfig) durations() []namedDuration {
	return []namedDuration{
		{"dialTimeout", &c.DialTimeout, pgnotify.DefaultDialTimeout},
		{"execTimeout", &c.ExecTimeout, pgnotify.DefaultExecTimeout},
		{"catchUpInterval", &c.CatchUpInterval, pgnotify.DefaultCatchUpInterval},
		{"catchUpOverlap", &c.CatchUpOverlap, pgnotify.DefaultCatchUpOverlap},
		{"pingInterval", &c.PingInterval, pgnotify.DefaultPingInterval},
		{"pingTimeout", &c.PingTimeout, pgnotify.DefaultPingTimeout},
		{"replayWindow", &c.ReplayWindow, pgnotify.DefaultReplayWindow},
	}
}

// Validate names every field that is out of its bounds.
func (c NotifyConfig) Validate() error {
	var problems []error
	switch c.Mode {
	case NotifyModeBatched, NotifyModeSerial, NotifyModeOff:
	default:
		problems = append(problems, fmt.Errorf("mode: %q is none of %s, %s, %s", c.Mode, NotifyModeBatched, NotifyModeSerial, NotifyModeOff))
	}
	for _, duration := range c.durations() {
		if *duration.field <= 0 {
			problems = append(problems, fmt.Errorf("%s: %s is not above 0", duration.name, *duration.field))
		}
	}
	for _, connection := range []struct{ name, dsn string }{{"pumpDSN", c.PumpDSN}, {"listenDSN", c.ListenDSN}} {
		if connection.dsn == "" {
			continue
		}
		if err := database.CheckDsn(connection.dsn); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", connection.name, err))
		}
	}
	for _, number := range []struct {
		name  string
		value int
	}{{"backlogPayloads", c.BacklogPayloads}, {"backlogBytes", c.BacklogBytes}} {
		if number.value <= 0 {
			problems = append(problems, fmt.Errorf("%s: %d is not above 0", number.name, number.value))
		}
	}
	return errors.Join(problems...)
}

// Option changes how a repository works.
type Option func(*settings)

type settings struct {
	notify NotifyConfig
	meters metric.MeterProvider
}

// WithNotifyConfig sets how committed changes are announced.
func WithNotifyConfig(config NotifyConfig) Option {
	return func(s *settings) { s.notify = config }
}

// WithMeterProvider sets with what notifications are measured. The default measures nothing.
func WithMeterProvider(meters metric.MeterProvider) Option {
	return func(s *settings) { s.meters = meters }
}
