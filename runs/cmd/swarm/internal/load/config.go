package load

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Bounds of the sizes.
const (
	maxRuns        = 10_000
	maxActions     = 100_000
	maxTotal       = 5_000_000 // actions in all runs together
	maxConcurrency = 4_096
	maxWatchers    = 10_000
	maxBatch       = 5_000
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

// Validate names the first field that is wrong, as its flag is called, and its bounds.
func (c Config) Validate() error {
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil || endpoint.Host == "" || !slices.Contains([]string{"http", "https"}, endpoint.Scheme) {
		return fmt.Errorf("endpoint: %q is no http:// or https:// URL", c.Endpoint)
	}
	for _, one := range []struct {
		flag, value string
		allowed     []string
	}{
		{"protocol", c.Protocol, []string{ProtocolGRPC, ProtocolGRPCWeb, ProtocolConnect}},
		{"events", c.Events, []string{EventsInternal, EventsProxy, EventsBoth, EventsNone}},
	} {
		if !slices.Contains(one.allowed, one.value) {
			return fmt.Errorf("%s: %q is none of %s", one.flag, one.value, strings.Join(one.allowed, ", "))
		}
	}
	for _, one := range []struct{ flag, value string }{{"org", c.Org}, {"project", c.Project}, {"domain", c.Domain}} {
		if n := len(one.value); n < 1 || n > 63 || strings.Contains(one.value, "/") {
			return fmt.Errorf("%s: %q must have 1 to 63 characters and no slash", one.flag, one.value)
		}
	}
	for _, one := range []struct {
		flag            string
		value, low, top int
	}{
		{"k", c.Runs, 1, maxRuns},
		{"n", c.Actions, 1, maxActions},
		{"concurrency", c.Concurrency, 1, maxConcurrency},
		{"parallel", c.Parallel, 1, maxRuns},
		{"event-batch", c.EventBatch, 1, maxBatch},
		{"action-watchers", c.ActionWatchers, 0, maxWatchers},
	} {
		if one.value < one.low || one.value > one.top {
			return fmt.Errorf("%s: %d is not between %d and %d", one.flag, one.value, one.low, one.top)
		}
	}
	if total := c.Runs * c.Actions; total > maxTotal {
		return fmt.Errorf("k × n: %d actions are more than %d", total, maxTotal)
	}
	for _, one := range []struct {
		flag       string
		value, low time.Duration
	}{
		{"duration", c.Duration, 0},
		{"settle", c.Settle, 0},
		{"timeout", c.Timeout, time.Millisecond},
	} {
		if one.value < one.low || one.value > 24*time.Hour {
			return fmt.Errorf("%s: %v is not between %v and 24h", one.flag, one.value, one.low)
		}
	}
	return nil
}
