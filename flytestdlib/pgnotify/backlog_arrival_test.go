package pgnotify

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func recent(b *Backlog, channel string) (payloads []string) {
	b.EachRecent(channel, func(payload string) { payloads = append(payloads, payload) })
	return payloads
}

// Whoever reads for a subscriber must know of a payload before the subscriber can: a moment later it may ask for what the payload names.
func TestOnArrivalIsToldBeforeAnybodyIsGivenThePayload(t *testing.T) {
	var b *laneBench
	var told []string
	b = newLaneBench(t, BacklogConfig{OnArrival: func(channel, payload string) {
		assert.EqualValues(t, len(told), b.backlog.Stats().Arrived, "it is not in yet")
		told = append(told, channel+" "+payload)
	}})
	b.pass(t, "a")
	b.pass(t, "b")
	b.backlog.arrive("c", "a") // again, after it was handed on
	b.backlog.arrive("c", "a") // again, while it waits
	b.backlog.arrive("elsewhere", "a")
	assert.Equal(t, []string{"c a", "c b", "c a", "c a"}, told, "nobody can subscribe to the other channel")
}

// The same while a broadcaster and subscribers run: each that gets a payload finds that it was told of before.
func TestOnArrivalIsAheadOfEverySubscriber(t *testing.T) {
	const payloads = 2000
	var told [payloads]atomic.Bool
	s := startStation(t, BacklogConfig{OnArrival: func(_, payload string) {
		var i int
		_, err := fmt.Sscan(payload, &i)
		assert.NoError(t, err)
		told[i].Store(true)
	}}, nil)
	ch, leave := s.subscribe(s.things)
	defer leave()
	go s.arrive(0, payloads)
	seen := map[string]bool{}
	deadline := time.After(patience)
	for len(seen) < payloads {
		select {
		case payload := <-ch:
			var i int
			_, err := fmt.Sscan(payload, &i)
			require.NoError(t, err)
			require.True(t, told[i].Load(), payload)
			seen[payload] = true
		case <-deadline:
			t.Fatal("payloads are missing")
		}
	}
}

// What a catch-up finds for one subscriber has not arrived, perhaps, and is told of all the same.
func TestOnArrivalIsToldOfWhatACatchUpFinds(t *testing.T) {
	var told []string
	b := newLaneBench(t, BacklogConfig{MaxPayloads: 2, OnArrival: func(_, payload string) { told = append(told, payload) }})
	ch := b.subscribe(1)
	b.look(nil)
	for _, payload := range []string{"a", "b", "c", "d", "e"} {
		b.pass(t, payload)
	}
	queued(ch)
	b.look(nil)
	b.look(nil)
	ask := <-b.backlog.refeeds.requests
	told = nil
	ask.refeed.accept(refeedPage{refeed: ask.refeed, changes: []Change{{Channel: "c", Payload: "found"}, {Channel: "elsewhere", Payload: "x"}}}, b.now)
	assert.Equal(t, []string{"found"}, told)
	queued(ch)
	b.look(nil)
	assert.Equal(t, []string{"found"}, queued(ch))
}

func TestEachRecentVisitsWhatANewSubscriberIsGiven(t *testing.T) {
	b := newLaneBench(t, BacklogConfig{ReplayWindow: 5 * time.Second})
	stuck := b.subscribe(1)
	stuck <- "full"
	b.look(nil)
	b.now = time.Second
	b.pass(t, "old")
	b.pass(t, "again")
	b.now = 10 * time.Second
	b.pass(t, "a")
	b.pass(t, "again")
	b.pass(t, "b")
	b.now = 12 * time.Second
	b.look(nil)
	require.Equal(t, 4, b.backlog.Stats().Kept, "the one that is stuck needs the old one")
	assert.Equal(t, []string{"a", "again", "b"}, recent(b.backlog, "c"), "which is nobody else's")

	comer := b.subscribe(10)
	b.look(nil)
	assert.Equal(t, []string{"a", "again", "b"}, queued(comer))

	b.backlog.arrive("c", "waits")
	assert.Equal(t, []string{"a", "again", "b", "waits"}, recent(b.backlog, "c"))
	b.now = time.Hour
	assert.Equal(t, []string{"waits"}, recent(b.backlog, "c"), "however long ago it came")
	assert.Empty(t, recent(b.backlog, "elsewhere"))
}

// No lock is held while it visits, and what comes meanwhile cannot keep it going.
func TestEachRecentEndsWhileMoreArrives(t *testing.T) {
	b := newLaneBench(t, BacklogConfig{})
	const n = 1000
	for i := range n {
		b.backlog.arrive("c", fmt.Sprint(i))
	}
	for range n / 2 { // handed on, so that they move to the end when they arrive again
		_, there := b.log.take(b.backlog.now)
		require.True(t, there)
	}
	for i := range n / 4 {
		b.backlog.arrive("c", fmt.Sprint(i))
	}
	var visited []string
	b.backlog.EachRecent("c", func(payload string) {
		visited = append(visited, payload)
		b.backlog.arrive("c", "more"+payload)
	})
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint((i+n/4)%n))
	}
	assert.Equal(t, want, visited)
}
