package pgnotify

import "time"

// Bounds of the time between two log lines about the same outage, which quadruples from one to the next.
const (
	outageLineMin = 10 * time.Second
	outageLineMax = 15 * time.Minute
)

// outage follows the failures in a row of one thing and decides which of them are worth a log line: the first one, then ever
// rarer ones, and the end of an outage whose beginning was told. Outages that come and go faster than outageLineMin (a backend
// killed again and again) stay untold but are counted. The zero value is ready; it is not safe for concurrent use.
type outage struct {
	failures int       // in a row
	since    time.Time // the first of them
	told     bool      // there was a line about this outage
	untold   int       // outages without a line since the last line

	line time.Time     // the last one, of this outage or of one before
	rest time.Duration // how long after it there is none about this outage
}

// failed counts a failure and tells whether to write a line about it.
func (o *outage) failed(now time.Time) bool {
	if o.failures == 0 {
		o.since, o.told, o.rest = now, false, outageLineMin
	}
	o.failures++
	if now.Before(o.line.Add(o.rest)) {
		return false
	}
	if o.told {
		o.rest = min(4*o.rest, outageLineMax)
	}
	o.line, o.told = now, true
	return true
}

// healed ends the outage and tells whether to write a line about that. Without an outage it does nothing.
func (o *outage) healed() bool {
	if o.failures == 0 {
		return false
	}
	o.failures = 0
	if !o.told {
		o.untold++
	}
	return o.told
}

// takeUntold returns the number of outages that no line was written about, and starts counting anew.
func (o *outage) takeUntold() int {
	n := o.untold
	o.untold = 0
	return n
}
