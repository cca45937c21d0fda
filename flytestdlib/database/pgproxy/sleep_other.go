//go:build !linux

package pgproxy

import "time"

// sleeper sleeps with the precision of the runtime's timers, about a millisecond.
type sleeper struct{}

func (sleeper) sleep(d time.Duration) { time.Sleep(d) }

func (sleeper) close() {}
