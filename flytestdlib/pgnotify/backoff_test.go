package pgnotify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoffDoublesWithinItsBounds(t *testing.T) {
	b := newBackoff()
	full := backoffMin
	for range 100 {
		wait := b.next()
		require.GreaterOrEqual(t, wait, full/2)
		require.LessOrEqual(t, wait, full)
		full = min(2*full, backoffMax)
	}
}

func TestBackoffStartsOverAfterReset(t *testing.T) {
	b := newBackoff()
	for range 20 {
		b.next()
	}
	b.reset()
	require.LessOrEqual(t, b.next(), backoffMin)
}

func TestBackoffSpreadsItsWaits(t *testing.T) {
	waits := map[time.Duration]bool{}
	for range 50 {
		b := newBackoff()
		waits[b.next()] = true
	}
	require.Greater(t, len(waits), 10, "replicas that fail together must not come back together")
}
