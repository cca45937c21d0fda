package load

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/bounds"
)

// Bounds of the sizes.
const (
	maxRuns        = 10_000
	maxActions     = 100_000
	maxTotal       = 5_000_000 // actions in all runs together
	maxConcurrency = 4_096
	maxWatchers    = 10_000
	maxBatch       = 5_000
	maxTime        = 24 * time.Hour
)

// Ways to report events.
const (
	EventsInternal = "internal" // InternalRunService.RecordActionEvents
	EventsProxy    = "proxy"    // EventsProxyService.Record
	EventsBoth     = "both"     // batches by turns on the two
	EventsNone     = "none"
)

// Protocols on the wire.
const (
	ProtocolGRPC    = "grpc"
	ProtocolGRPCWeb = "grpcweb"
	ProtocolConnect = "connect"
)

// Config says what to do to which service. DefaultConfig has the defaults.
type Config struct {
	// Endpoint is the base URL of the service; http means HTTP/2 without TLS.
	Endpoint string `json:"endpoint"`
	// Protocol is grpc, grpcweb or connect.
	Protocol string `json:"protocol"`
	// Org, Project and Domain of all runs.
	Org     string `json:"org"`
	Project string `json:"project"`
	Domain  string `json:"domain"`
	// Runs to drive, and child actions in each.
	Runs    int `json:"runs"`
	Actions int `json:"actions"`
	// Concurrency is the number of actions in hand at the same time.
	Concurrency int `json:"concurrency"`
	// Parallel is the number of runs in progress at the same time; a run begins when another has ended.
	Parallel int `json:"parallel"`
	// Duration ends the load: no further action begins. 0: when all runs have ended.
	Duration time.Duration `json:"durationNs"`
	// Settle is how long to wait, after the last answer, for watchers that have not seen the terminal phase.
	Settle time.Duration `json:"settleNs"`
	// Timeout of a call.
	Timeout time.Duration `json:"timeoutNs"`
	// Events is internal, proxy, both or none.
	Events string `json:"events"`
	// EventBatch is the number of events in one call.
	EventBatch int `json:"eventBatch"`
	// ActionWatchers is the number of actions with a WatchActionDetails stream of their own.
	ActionWatchers int `json:"actionWatchers"`
}

// DefaultConfig is a load of some seconds for a service on this machine.
func DefaultConfig() Config {
	return Config{
		Endpoint:       "http://127.0.0.1:8090",
		Protocol:       ProtocolGRPC,
		Org:            "swarm",
		Project:        "swarm",
		Domain:         "development",
		Runs:           10,
		Actions:        100,
		Concurrency:    50,
		Parallel:       5,
		Settle:         30 * time.Second,
		Timeout:        30 * time.Second,
		Events:         EventsBoth,
		EventBatch:     10,
		ActionWatchers: 10,
	}
}

// Validate names the fields that are wrong, as their flags are called, and their bounds.
func (c Config) Validate() error {
	var wrong []error
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil || endpoint.Host == "" || !slices.Contains([]string{"http", "https"}, endpoint.Scheme) {
		wrong = append(wrong, fmt.Errorf("endpoint: %q is no http:// or https:// URL", c.Endpoint))
	}
	for _, one := range []struct{ flag, value string }{{"org", c.Org}, {"project", c.Project}, {"domain", c.Domain}} {
		if n := len(one.value); n < 1 || n > 63 || strings.Contains(one.value, "/") {
			wrong = append(wrong, fmt.Errorf("%s: %q must have 1 to 63 characters and no slash", one.flag, one.value))
		}
	}
	if total := c.Runs * c.Actions; total > maxTotal {
		wrong = append(wrong, fmt.Errorf("k × n: %d actions are more than %d", total, maxTotal))
	}
	return errors.Join(append(wrong,
		bounds.OneOf("protocol", c.Protocol, []string{ProtocolGRPC, ProtocolGRPCWeb, ProtocolConnect}),
		bounds.OneOf("events", c.Events, []string{EventsInternal, EventsProxy, EventsBoth, EventsNone}),
		bounds.Between("k", c.Runs, 1, maxRuns),
		bounds.Between("n", c.Actions, 1, maxActions),
		bounds.Between("concurrency", c.Concurrency, 1, maxConcurrency),
		bounds.Between("parallel", c.Parallel, 1, maxRuns),
		bounds.Between("event-batch", c.EventBatch, 1, maxBatch),
		bounds.Between("action-watchers", c.ActionWatchers, 0, maxWatchers),
		bounds.Between("duration", c.Duration, 0, maxTime),
		bounds.Between("settle", c.Settle, 0, maxTime),
		bounds.Between("timeout", c.Timeout, time.Millisecond, maxTime),
	)...)
}
