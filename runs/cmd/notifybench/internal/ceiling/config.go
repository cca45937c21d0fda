// Package ceiling measures what a round trip costs: it sends the same number of notifications in one loop inside the server, in as many
// single statements, and in the forms that save the round trips in between.
package ceiling

import (
	"errors"
	"slices"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/bounds"
)

// The forms.
const (
	ServerLoop  = "server-loop" // a DO block: no round trip in between, no parameters
	Single      = "single"      // a statement for each, each waiting for the one before
	MultiCall   = "multi-call"  // SELECT pg_notify(…), pg_notify(…), … : pgnotify's Sender
	Unnest      = "unnest"      // SELECT pg_notify(…) FROM unnest(…)
	Pipeline    = "pipeline"    // a statement for each, sent without waiting, one transaction
	PipelineTxs = "pipeline-tx" // the same with a transaction for each
)

// Forms are all of them.
var Forms = []string{ServerLoop, Single, MultiCall, Unnest, Pipeline, PipelineTxs}

var descriptions = map[string]string{
	ServerLoop:  "one loop in the server",
	Single:      "single statements",
	MultiCall:   "multi-call statement (pgnotify)",
	Unnest:      "unnest",
	Pipeline:    "pipeline, one transaction",
	PipelineTxs: "pipeline, a transaction each",
}

// Config is the size.
type Config struct {
	N      int      `json:"n"` // notifications in each run
	Modes  []string `json:"modes"`
	Rounds int      `json:"rounds"`
}

// DefaultConfig is a thousand notifications, five times in each form.
func DefaultConfig() Config { return Config{N: 1000, Modes: slices.Clone(Forms), Rounds: 5} }

// Connections: the one that sends, the Sender's, and the one that listens.
func (c Config) Connections() int { return 3 }

// Validate names what is out of bounds.
func (c Config) Validate() error {
	return errors.Join(
		bounds.Between("n", c.N, 1, 100_000),
		bounds.Between("repeat", c.Rounds, 1, 1000),
		bounds.Distinct("mode", c.Modes, Forms),
	)
}
