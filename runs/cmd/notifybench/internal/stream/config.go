// Package stream is the workload that decides how to wake readers: rows are appended to streams, and readers, woken by NOTIFY, read on from
// where they are.
//
//	writer ──INSERT──► table ◄──SELECT after the last row read── reader
//	   └──NOTIFY (or none)──► one listener ──which streams have more──┘
//
// A NOTIFY inside the writing transaction makes its commit take a lock of the whole cluster, which it keeps until it is through:
// until the disk has answered, where commits wait for it. Such commits go one after the other, while those without a NOTIFY share
// a flush. That is what the modes show.
package stream

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/bounds"
)

// The modes: how readers learn of a row.
const (
	InTx     = "intx"     // pg_notify in the writing transaction, sent along with the INSERT: no round trip more
	Trigger  = "trigger"  // a trigger on the table does it
	Buffered = "buffered" // after the commit through pgnotify: one pump on one connection for all writers
	None     = "none"     // not at all: readers poll
)

// Modes are all of them.
var Modes = []string{InTx, Trigger, Buffered, None}

// Config is the size of the load.
type Config struct {
	Writers  int           `json:"writers"`    // stream s is writer s mod Writers' alone, so that its rows become visible in order
	Streams  int           `json:"streams"`    // each is read by at least one reader
	Readers  int           `json:"readers"`    // see follows
	Duration time.Duration `json:"durationNs"` // of the writing, in each run
	Rate     float64       `json:"rate"`       // writes per second of all writers together; 0: as many as they can
	Poll     time.Duration `json:"pollNs"`     // how often readers look in mode none
	Fallback time.Duration `json:"fallbackNs"` // how often they look in the others, for what no notification told
	Flush    time.Duration `json:"flushNs"`    // shortest time from one statement of the pump to the next in mode buffered; 0: none
	Settle   time.Duration `json:"settleNs"`   // longest time, after the writing, until the readers have read all
	Modes    []string      `json:"modes"`
	Rounds   int           `json:"rounds"`
}

// DefaultConfig compares the modes in about two minutes. The fallback is rarer than a run is long, so that nothing hides behind it.
func DefaultConfig() Config {
	return Config{
		Writers: 50, Streams: 50, Readers: 5, Duration: 8 * time.Second,
		Poll: time.Second, Fallback: 20 * time.Second, Settle: time.Minute,
		Modes: slices.Clone(Modes), Rounds: 3,
	}
}

// Connections is how many the load needs: a listener's and a pump's or set-up's besides.
func (c Config) Connections() int { return c.Writers + c.Readers + 2 }

// Validate names what is out of bounds.
func (c Config) Validate() error {
	var idle, lost error
	if c.Streams < c.Writers {
		idle = fmt.Errorf("streams: %d writers want a stream each, there are %d", c.Writers, c.Streams)
	}
	if c.Settle <= c.Fallback || c.Settle <= c.Poll {
		lost = fmt.Errorf("settle: %s is not longer than fallback (%s) and poll (%s): what only these find would count as lost", c.Settle, c.Fallback, c.Poll)
	}
	return errors.Join(
		bounds.Between("writers", c.Writers, 1, 10_000),
		bounds.Between("streams", c.Streams, 1, 1_000_000),
		bounds.Between("readers", c.Readers, 1, 10_000),
		bounds.Between("repeat", c.Rounds, 1, 1000),
		idle,
		bounds.Between("duration", c.Duration, 10*time.Millisecond, time.Hour),
		bounds.Between("poll", c.Poll, time.Millisecond, time.Hour),
		bounds.Between("fallback", c.Fallback, 10*time.Millisecond, time.Hour),
		bounds.Between("flush", c.Flush, 0, time.Minute),
		bounds.Between("settle", c.Settle, time.Second, 2*time.Hour),
		lost,
		bounds.Between("rate", c.Rate, 0, 1e7),
		bounds.Distinct("mode", c.Modes, Modes),
	)
}

// follows returns the streams of a reader. With fewer readers than streams they share them out; with more, several read the same.
func (c Config) follows(reader int) []int {
	if c.Readers >= c.Streams {
		return []int{reader % c.Streams}
	}
	var streams []int
	for s := reader; s < c.Streams; s += c.Readers {
		streams = append(streams, s)
	}
	return streams
}

// streamOf returns which of its streams a writer appends its nth row to: one after the other.
func (c Config) streamOf(writer, n int) int {
	own := (c.Streams - writer + c.Writers - 1) / c.Writers
	return writer + n%own*c.Writers
}
