// Package trial holds what single trials of a load measured, and sets them side by side: medians with their spread, and ratios.
//
// All trials are kept, in the order in which they ran. A trial with a reason to be void is shown and taken into no figure.
package trial

import (
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/machine"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
)

// Trial is one load on one side. What is nil was not measured: behind an endpoint that is not ours there is only the load.
type Trial struct {
	// Side is what is compared: a notify mode, or a name for the endpoint.
	Side string `json:"side"`
	// Round from 1. Each side has one trial in each round; ratios are taken within a round.
	Round int `json:"round"`
	// LoadAverage of the machine just before, over 1, 5 and 15 minutes.
	LoadAverage string `json:"loadAverage,omitempty"`

	Load *load.Result `json:"load"`
	Rows *Rows        `json:"rows,omitempty"`
	Wire *Wire        `json:"wire,omitempty"`
	CPU  *CPU         `json:"cpu,omitempty"`
	// Samples over the load and the time that it took to settle.
	Samples []Sample `json:"samples,omitempty"`

	// Void says why the figures mean nothing; empty when they stand.
	Void []string `json:"void,omitempty"`
}

// Rows compares what the answers promised with what is in the tables.
type Rows struct {
	Expected load.Written `json:"expected"`
	Stored   load.Written `json:"stored"`
}

// Wire is what crossed between service and database from the first call until all watchers had seen the end.
type Wire struct {
	Seconds float64 `json:"seconds"`
	// Pump is the connection that sends notifications, Listener the one that receives them, All are all connections.
	Pump     Traffic `json:"pump"`
	Listener Traffic `json:"listener"`
	All      Traffic `json:"all"`
}

// Traffic of some connections.
type Traffic struct {
	Statements    int64 `json:"statements"`
	RoundTrips    int64 `json:"roundTrips"`
	Notifications int64 `json:"notifications"`
}

// CPU is the processor time used over the same span, in seconds.
type CPU struct {
	Service  float64 `json:"serviceSeconds"`
	Database float64 `json:"databaseSeconds"`
	// Client is ours: the load, and the proxy before the database.
	Client float64 `json:"clientSeconds"`
}

// Sample is where a trial stood at one moment. Counts are since its start.
type Sample struct {
	Seconds float64 `json:"seconds"`
	// Calls answered.
	Calls int64 `json:"calls"`
	// Notifications that the listener received.
	Notifications int64 `json:"notifications"`
	// Behind is the number of watchers that are to see a terminal phase and have not.
	Behind int64 `json:"behind"`
	// Pending is how many payloads the pump holds; nil when the service has no such metric.
	Pending *float64 `json:"pending,omitempty"`
}

// Set is a whole measurement: everything to show it by, or to doubt it by.
type Set struct {
	Title   string    `json:"title"`
	Command string    `json:"command"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	// Machine at the start.
	Machine machine.Info `json:"machine"`
	// Facts about the arrangement and its versions, in the order to show them in.
	Facts []Fact `json:"facts"`
	// Sides in the order to show them in, and which to set in relation.
	Sides []Side `json:"sides"`
	Pairs []Pair `json:"pairs"`
	// Trials in the order in which they ran.
	Trials []*Trial `json:"trials"`
	// Interrupted: the user ended it before its time.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Fact is something to know about the arrangement.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Side is one of those compared.
type Side struct {
	Name string `json:"name"`
	// Unwatched: nothing is announced, so that watchers see nothing, and nothing follows from that.
	Unwatched bool `json:"unwatched,omitempty"`
}

// Pair names the side that is measured by another.
type Pair struct {
	Subject   string `json:"subject"`
	Reference string `json:"reference"`
}

// Of returns the trials of a side, the void ones left out, in the order of their rounds.
func (s *Set) Of(side string) []*Trial {
	var all []*Trial
	for _, t := range s.Trials {
		if t.Side == side && len(t.Void) == 0 {
			all = append(all, t)
		}
	}
	return all
}

// Void returns the trials whose figures mean nothing.
func (s *Set) Void() []*Trial {
	var all []*Trial
	for _, t := range s.Trials {
		if len(t.Void) > 0 {
			all = append(all, t)
		}
	}
	return all
}
