package pgnotify

import (
	"math/rand/v2"
	"time"
)

// Bounds of the waits between two attempts. The first retry comes quickly, because a killed backend or an aborted
// statement is usually answered by a fresh connection; the last ones leave a server that is starting up in peace, yet
// find it within seconds of its coming back.
const (
	backoffMin = 50 * time.Millisecond
	backoffMax = 5 * time.Second
)

// backoff tells how long to wait before the next attempt: after the n-th failure in a row a random time between half
// of and the full min·2ⁿ⁻¹, never more than max. The randomness keeps the replicas of one service, which all lose their
// connection in the same instant, from returning in the same instant.
//
// It holds no timer and starts no goroutine. It is not safe for concurrent use.
type backoff struct {
	min, max time.Duration
	failures int
}

func newBackoff() backoff {
	return backoff{min: backoffMin, max: backoffMax}
}

// next counts one more failure and returns the wait that it earns.
func (b *backoff) next() time.Duration {
	full := b.max
	// The shift is bounded before it is done: 62 doublings of a nanosecond still fit an int64.
	if b.failures < 62 && b.min < b.max>>b.failures {
		full = b.min << b.failures
	}
	b.failures++
	half := full / 2
	return half + rand.N(full-half+1)
}

// reset forgets the failures: the next wait is a shortest one again.
func (b *backoff) reset() { b.failures = 0 }
