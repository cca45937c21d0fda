package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// station is a running Backlog of one channel with its broadcaster, without a database.
type station struct {
	*broadcaster
	backlog *Backlog
}

// startStation runs until the test ends. The Listener that the broadcaster knows has a Notify and nothing else.
func startStation(t testing.TB, cfg BacklogConfig, refeed func(context.Context, time.Time, string) ([]Change, string, error)) *station {
	t.Helper()
	s := &station{broadcaster: newBroadcaster()}
	var err error
	s.backlog, err = NewBacklog(cfg, s.subscribers())
	require.NoError(t, err)
	s.backlog.refeeds.read = refeed
	s.listener = &Listener{Notify: s.backlog.Notify}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.backlog.run(ctx) })
	running.Go(s.processNotifications)
	if refeed != nil {
		running.Go(func() { s.backlog.refeeds.run(ctx, s.backlog.started) })
	}
	t.Cleanup(func() {
		cancel()
		close(s.done)
		running.Wait()
	})
	return s
}

func (s *station) arrive(from, to int) {
	for i := from; i < to; i++ {
		s.backlog.arrive(thingChannel, fmt.Sprint(i))
	}
}

// take reads from a subscriber until each of the payloads from…to has been seen.
func take(t testing.TB, ch <-chan string, from, to int) {
	t.Helper()
	missing := map[string]bool{}
	for i := from; i < to; i++ {
		missing[fmt.Sprint(i)] = true
	}
	deadline := time.After(patience)
	for len(missing) > 0 {
		select {
		case payload := <-ch:
			delete(missing, payload)
		case <-deadline:
			t.Fatalf("%d of %d payloads are missing", len(missing), to-from)
		}
	}
}

func TestBacklogKeepsWhatASubscriberHasNoRoomFor(t *testing.T) {
	s := startStation(t, BacklogConfig{}, nil)
	slow, leave := s.subscribe(s.things)
	defer leave()
	s.arrive(0, 5000)
	awaitThat(t, func() error {
		if stats := s.backlog.Stats(); stats.HandedOn < 5000 || stats.Behind != 1 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	assert.Len(t, slow, 100)
	take(t, slow, 0, 5000)
	awaitThat(t, func() error {
		if stats := s.backlog.Stats(); stats.Behind != 0 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	s.arrive(5000, 5001)
	take(t, slow, 5000, 5001)
}

func TestBacklogFoldsWhatWaits(t *testing.T) {
	s := startStation(t, BacklogConfig{}, nil)
	slow, leave := s.subscribe(s.things)
	defer leave()
	for range 200 {
		s.arrive(0, 150)
	}
	awaitThat(t, func() error {
		if stats := s.backlog.Stats(); stats.Waiting > 0 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	stats := s.backlog.Stats()
	assert.EqualValues(t, 30_000, stats.Arrived)
	assert.Equal(t, 150, stats.Kept, "of 30,000")
	take(t, slow, 0, 150)
}

func TestBacklogServesASubscriberWhileAnotherDoesNotRead(t *testing.T) {
	s := startStation(t, BacklogConfig{}, nil)
	_, leaveStuck := s.subscribe(s.things)
	defer leaveStuck()
	quick, leave := s.subscribe(s.things)
	defer leave()
	for i := range 50 {
		s.arrive(i*50, (i+1)*50)
		take(t, quick, i*50, (i+1)*50)
	}
	assert.EqualValues(t, 1, s.backlog.Stats().Behind)
}

// Channels of any capacity, also those that a broadcaster could not serve reliably.
func TestBacklogServesSmallChannels(t *testing.T) {
	for capacity := range 4 {
		t.Run(fmt.Sprint(capacity), func(t *testing.T) {
			s := startStation(t, BacklogConfig{}, nil)
			ch := make(chan string, capacity)
			s.mu.Lock()
			s.things[ch] = true
			s.mu.Unlock()
			go s.arrive(0, 200)
			take(t, ch, 0, 200)
		})
	}
}

func TestBacklogLetsGoOfWhoLeaves(t *testing.T) {
	s := startStation(t, BacklogConfig{ReplayWindow: time.Millisecond}, nil)
	_, leave := s.subscribe(s.things)
	s.arrive(0, 1000)
	awaitThat(t, func() error {
		if stats := s.backlog.Stats(); stats.HandedOn < 1000 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	require.GreaterOrEqual(t, s.backlog.Stats().Kept, 900)
	leave()
	awaitThat(t, func() error {
		if stats := s.backlog.Stats(); stats.Subscribers+stats.Behind > 0 || stats.Kept > 1 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
}

// The update that falls between a snapshot and the registration, with no further traffic that could lead to it being noticed.
func TestBacklogReplaysTheLastMomentsToANewSubscriber(t *testing.T) {
	s := startStation(t, BacklogConfig{ReplayWindow: time.Hour}, nil)
	s.arrive(0, 300)
	awaitThat(t, func() error {
		if stats := s.backlog.Stats(); stats.HandedOn < 300 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	late, leave := s.subscribe(s.things)
	defer leave()
	take(t, late, 0, 300)
}

func TestBacklogForgetsWhatIsOutsideTheReplayWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroadcaster()
		backlog, err := NewBacklog(BacklogConfig{ReplayWindow: 5 * time.Second}, b.subscribers())
		require.NoError(t, err)
		b.listener = &Listener{Notify: backlog.Notify}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { backlog.run(ctx) })
		running.Go(b.processNotifications)
		defer running.Wait()
		defer close(b.done)
		defer cancel()

		backlog.arrive(thingChannel, "old")
		time.Sleep(3 * time.Second)
		backlog.arrive(thingChannel, "young")
		time.Sleep(3 * time.Second)
		late, leave := b.subscribe(b.things)
		defer leave()
		time.Sleep(lookInterval)
		synctest.Wait()
		assert.Len(t, late, 1)
		assert.Equal(t, "young", <-late)
	})
}

// Beyond the limit the subscriber is given, alone, what a catch-up finds.
func TestBacklogRefeedsWhoMissedWhatWasDropped(t *testing.T) {
	const n, page = 3000, 100
	var reads atomic.Int64
	var since atomic.Pointer[time.Time]
	refeed := func(_ context.Context, arrived time.Time, after string) (changes []Change, next string, err error) {
		since.Store(&arrived)
		if reads.Add(1)%7 == 1 {
			return nil, "", errors.New("no luck")
		}
		from := 0
		if after != "" {
			_, _ = fmt.Sscan(after, &from)
		}
		for i := from; i < min(n, from+page); i++ {
			changes = append(changes, Change{Channel: thingChannel, Payload: fmt.Sprint(i)}, Change{Channel: groupChannel, Payload: "elsewhere"})
		}
		if from+page < n {
			next = fmt.Sprint(from + page)
		}
		return changes, next, nil
	}
	start := time.Now()
	s := startStation(t, BacklogConfig{MaxPayloads: 500}, refeed)
	slow, leave := s.subscribe(s.things)
	defer leave()
	quick, leaveQuick := s.subscribe(s.things)
	defer leaveQuick()
	for i := range n / 50 {
		s.arrive(i*50, (i+1)*50)
		take(t, quick, i*50, (i+1)*50)
	}
	assert.Zero(t, reads.Load(), "it has no room yet")
	quickHad := s.backlog.Stats().Fed
	take(t, slow, 0, n)
	stats := s.backlog.Stats()
	assert.EqualValues(t, 1, stats.Gaps)
	assert.Zero(t, stats.Lost)
	assert.LessOrEqual(t, stats.Kept, 500)
	assert.Greater(t, stats.Fed, quickHad)
	assert.WithinRange(t, *since.Load(), start, start.Add(patience))
	awaitThat(t, func() error {
		for len(slow) > 0 { // what came twice
			<-slow
		}
		if stats := s.backlog.Stats(); stats.Behind > 0 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	assert.Empty(t, quick, "the other one has nothing to do with it")
}

// While the broadcaster is stuck everything waits, within the limits, and the owner is told what he has to look for.
func TestBacklogBoundsWhatWaitsForAStuckBroadcaster(t *testing.T) {
	s := startStation(t, BacklogConfig{MaxPayloads: 200}, nil)
	var lost atomic.Int64
	start := time.Now()
	s.backlog.onLost = func(since time.Time) {
		lost.Add(1)
		assert.WithinRange(t, since, start, time.Now())
	}
	ch, leave := s.subscribe(s.things)
	defer leave()
	s.mu.Lock()
	s.arrive(0, 10_000)
	stats := s.backlog.Stats()
	assert.LessOrEqual(t, stats.Kept, 200)
	assert.GreaterOrEqual(t, stats.Lost, uint64(9_700))
	assert.EqualValues(t, stats.Lost, lost.Load())
	s.mu.Unlock()
	take(t, ch, 9_900, 10_000)
}

// Subscribers come and go under load; run with -race. Whoever stays sees the last version of everything, as a database would have it.
func TestBacklogUnderComingAndGoing(t *testing.T) {
	s := startStation(t, BacklogConfig{}, nil)
	const keys, versions, stayers, comers = 200, 50, 10, 200
	var database [keys]atomic.Int64

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var views [stayers][keys]atomic.Int64
	for i := range stayers {
		ch, leave := s.subscribe(s.things)
		all.Go(func() {
			defer leave()
			for {
				select {
				case payload := <-ch:
					var key int
					_, _ = fmt.Sscan(payload, &key)
					views[i][key].Store(database[key].Load())
					if rand.N(1000) == 0 {
						time.Sleep(5 * time.Millisecond)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for range comers {
		all.Go(func() {
			for ctx.Err() == nil {
				ch, leave := s.subscribe(s.things)
				for range rand.N(5) {
					select {
					case <-ch:
					case <-ctx.Done():
					}
				}
				leave()
				time.Sleep(time.Millisecond)
			}
		})
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for v := range versions {
				for key := w; key < keys; key += 4 {
					database[key].Store(int64(v + 1))
					s.backlog.arrive(thingChannel, fmt.Sprint(key))
				}
			}
		})
	}
	writers.Wait()
	for i := range stayers {
		for key := range keys {
			awaitThat(t, func() error {
				if got := views[i][key].Load(); got != versions {
					return fmt.Errorf("subscriber %d shows version %d of %d", i, got, key)
				}
				return nil
			})
		}
	}
	cancel()
	all.Wait()
}

func TestBacklogConfigIsChecked(t *testing.T) {
	none := map[string]Subscribers{"c": func(func(chan string)) {}}
	for want, cfg := range map[string]BacklogConfig{
		"ReplayWindow is -1s": {ReplayWindow: -time.Second},
		"MaxPayloads is -1":   {MaxPayloads: -1},
		"MaxBytes is -1":      {MaxBytes: -1},
	} {
		_, err := NewBacklog(cfg, none)
		require.ErrorContains(t, err, want)
	}
	_, err := NewBacklog(BacklogConfig{}, nil)
	require.ErrorContains(t, err, "no channel")
	_, err = NewBacklog(BacklogConfig{}, map[string]Subscribers{"c": nil})
	require.ErrorContains(t, err, `"c" has no Subscribers`)
	_, err = NewBacklog(BacklogConfig{}, map[string]Subscribers{strings.Repeat("x", 64): none["c"]})
	require.ErrorContains(t, err, "64 bytes")
}
