package pgnotify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A change that a catch-up found may be much older than the arrival of its payload.
func TestWhoMissedWhatACatchUpFoundAsksForAsMuch(t *testing.T) {
	old := -time.Hour
	b := newLaneBench(t, BacklogConfig{ReplayWindow: 5 * time.Second, MaxPayloads: 2})
	var lost []time.Duration
	b.backlog.onLost = func(since time.Time) { lost = append(lost, since.Sub(b.backlog.started)) }
	slow := b.subscribe(2)
	b.look(nil)
	slow <- "x"
	slow <- "y"

	b.now = 10 * time.Second
	end := b.backlog.retelling(b.backlog.started.Add(old))
	for _, payload := range []string{"a", "b", "c", "d"} { // a and b go, though the subscriber has not had them
		b.pass(t, payload)
	}
	queued(slow)
	b.look(nil)
	b.look(nil)
	require.Len(t, b.backlog.refeeds.requests, 1)
	assert.Equal(t, old, (<-b.backlog.refeeds.requests).since, "one that was behind")

	b.backlog.arrive("c", "e")
	b.backlog.arrive("c", "f")
	b.backlog.arrive("c", "g") // e goes before anybody had it
	assert.Equal(t, []time.Duration{old}, lost, "all")
	end()

	b.now = 20 * time.Second
	b.backlog.arrive("c", "h")
	b.backlog.arrive("c", "i")
	b.backlog.arrive("c", "j")
	assert.Equal(t, []time.Duration{old, old, old, 20 * time.Second}, lost, "f and g from the catch-up's time, h from after it")
}

func TestRetellingsThatAreTooManyAreTakenTogether(t *testing.T) {
	b := newLaneBench(t, BacklogConfig{}).backlog
	var now time.Duration
	b.now = func() time.Duration { return now }
	const many = 3 * maxRetellings
	for i := range many {
		now = time.Duration(i) * time.Minute
		since := now - time.Second
		if i == 0 {
			since = -time.Hour
		}
		b.retelling(b.started.Add(since))()
	}
	assert.Len(t, b.retold.all, maxRetellings)
	assert.Equal(t, -time.Hour, b.retold.reach(0))
	assert.Equal(t, now-time.Second, b.retold.reach(now))
	assert.Equal(t, now+1, b.retold.reach(now+1))
	for i := range many {
		at := time.Duration(i) * time.Minute
		assert.LessOrEqual(t, b.retold.reach(at), at-time.Second, "never less than was told at %s", at)
	}
}

// Folded or not, what is under way counts for what arrives now.
func TestARetellingUnderWayIsNotForgotten(t *testing.T) {
	b := newLaneBench(t, BacklogConfig{}).backlog
	now := time.Hour
	b.now = func() time.Duration { return now }
	b.retelling(b.started) // goes on
	for range maxRetellings {
		now += time.Minute
		b.retelling(b.started.Add(now))()
	}
	assert.Zero(t, b.retold.reach(now+time.Hour))
}
