package pgnotify

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// laneBench is a lane whose distributor the test is, with a clock of its own and no broadcaster.
type laneBench struct {
	*lane
	now         time.Duration
	subscribers []chan string
}

func newLaneBench(t *testing.T, cfg BacklogConfig) *laneBench {
	b := &laneBench{}
	backlog, err := NewBacklog(cfg, map[string]Subscribers{"c": func(visit func(chan string)) {
		for _, ch := range b.subscribers {
			visit(ch)
		}
	}})
	require.NoError(t, err)
	backlog.now = func() time.Duration { return b.now }
	backlog.refeeds.read = func(context.Context, time.Time, string) ([]Change, string, error) { return nil, "", nil }
	b.lane = backlog.byName["c"]
	b.lane.lookedAt = 0
	return b
}

// pass lets a payload arrive and go to the broadcaster.
func (b *laneBench) pass(t *testing.T, payload string) {
	b.backlog.arrive("c", payload)
	next, there := b.log.take(b.backlog.now)
	require.True(t, there)
	b.look(&next)
	b.handedOn(next)
}

func (b *laneBench) subscribe(capacity int) chan string {
	ch := make(chan string, capacity)
	b.subscribers = append(b.subscribers, ch)
	return ch
}

func queued(ch chan string) (payloads []string) {
	for len(ch) > 0 {
		payloads = append(payloads, <-ch)
	}
	return payloads
}

// The replay window counts from before the registration, however long ago that was when the distributor gets round to it.
func TestLaneDoesNotChargeItsOwnDelayToANewSubscriber(t *testing.T) {
	b := newLaneBench(t, BacklogConfig{ReplayWindow: 5 * time.Second})
	b.now = time.Second
	b.pass(t, "a")
	ch := b.subscribe(10)
	b.now = time.Hour
	b.look(nil)
	assert.Equal(t, []string{"a"}, queued(ch))
}

// The broadcaster may be held up with a payload for longer than the replay window, and the subscriber that it then has no room for needs it.
func TestLaneKeepsWhatTheBroadcasterMayStillHold(t *testing.T) {
	b := newLaneBench(t, BacklogConfig{ReplayWindow: 5 * time.Second})
	ch := b.subscribe(2)
	b.look(nil)
	b.pass(t, "a")
	ch <- "x"
	ch <- "y"
	b.now = time.Hour
	b.look(nil)
	b.pass(t, "b")
	require.Equal(t, []string{"x", "y"}, queued(ch))
	b.look(nil)
	assert.Equal(t, []string{"a", "b"}, queued(ch))
}

func TestLaneRefeedsANewSubscriberForWhoseWindowSomethingWasDropped(t *testing.T) {
	b := newLaneBench(t, BacklogConfig{ReplayWindow: 5 * time.Second, MaxPayloads: 1})
	b.now = time.Second
	b.pass(t, "a")
	b.pass(t, "b")
	ch := b.subscribe(10)
	b.look(nil)
	assert.Equal(t, []string{"b"}, queued(ch))
	require.Len(t, b.backlog.refeeds.requests, 1)
	request := <-b.backlog.refeeds.requests
	assert.LessOrEqual(t, request.since, time.Second)
}

// What is dropped while a catch-up for the subscriber is under way may not be in its pages any more.
func TestLaneRefeedsOnceMoreForWhatWasDroppedMeanwhile(t *testing.T) {
	b := newLaneBench(t, BacklogConfig{MaxPayloads: 1})
	ch := b.subscribe(1)
	ch <- "x"
	b.look(nil)
	b.now = time.Second
	b.pass(t, "a")
	b.pass(t, "b")
	queued(ch)
	b.look(nil) // finds the gap
	b.look(nil)
	first := <-b.backlog.refeeds.requests

	queued(ch)
	ch <- "x"
	b.now = time.Minute
	b.pass(t, "c")
	b.pass(t, "d")
	b.now = time.Hour
	b.pass(t, "e")
	b.pass(t, "f")
	queued(ch)
	b.look(nil)
	first.refeed.accept(refeedPage{refeed: first.refeed}, b.now)
	b.look(nil)
	require.Len(t, b.backlog.refeeds.requests, 1)
	again := <-b.backlog.refeeds.requests
	assert.Greater(t, again.since, first.since)
	assert.LessOrEqual(t, again.since, time.Minute)
	again.refeed.accept(refeedPage{refeed: again.refeed}, b.now)
	for range 3 {
		b.look(nil)
		queued(ch)
	}
	assert.Zero(t, b.behind)
}
