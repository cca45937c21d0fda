package pgnotify

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPendingKeepsOrderOfFirstArrivalAndFoldsRepeats(t *testing.T) {
	p := NewPending("c")
	for _, payload := range []string{"a", "b", "a", "c", "b", "a"} {
		require.True(t, p.Add(payload))
	}
	b := p.Take(0)
	require.Equal(t, "c", b.Channel)
	require.Equal(t, []string{"a", "b", "c"}, payloadsOf(b.Entries))

	s := p.Stats()
	require.EqualValues(t, 6, s.Added)
	require.EqualValues(t, 3, s.Coalesced)
	require.Equal(t, 3, s.InFlight)
	requireSum(t, s)
}

// An update that is committed after the batch left may not be announced by that batch: its receivers may have read before it.
func TestPendingTakesWhatIsInFlightAsNewWork(t *testing.T) {
	p := NewPending("c")
	p.Add("a")
	first := p.Take(0)
	p.Add("a")
	p.Add("a")
	p.Settle(Outcome{Batch: first})

	second := p.Take(0)
	require.Equal(t, []string{"a"}, payloadsOf(second.Entries))
	p.Settle(Outcome{Batch: second})
	s := p.Stats()
	require.EqualValues(t, 2, s.Delivered)
	require.EqualValues(t, 1, s.Coalesced)
	requireSum(t, s)
}

func TestPendingPutsUndeliveredInFrontWithTheirTimes(t *testing.T) {
	p := NewPending("c")
	for _, payload := range []string{"a", "b", "c"} {
		p.Add(payload)
	}
	b := p.Take(0)
	p.Add("d")
	p.Add("b") // merges with the one that comes back, at the old place
	p.Settle(Outcome{Batch: b, Undelivered: b.Entries[1:]})

	again := p.Take(0)
	require.Equal(t, []string{"b", "c", "d"}, payloadsOf(again.Entries))
	require.Equal(t, b.Entries[1], again.Entries[0])
	require.Equal(t, b.Entries[2], again.Entries[1])
	s := p.Stats()
	require.EqualValues(t, 1, s.Delivered)
	require.EqualValues(t, 1, s.Coalesced)
	require.EqualValues(t, 2, s.Requeued)
	requireSum(t, s)
}

// The list comes back in pieces; nobody may see that in the order.
func TestPendingRequeuesLongBatchesInOrder(t *testing.T) {
	for _, n := range []int{1, lockedAtOnce - 1, lockedAtOnce, lockedAtOnce + 1, 3*lockedAtOnce + 7} {
		p := NewPending("c")
		want := numbered(n)
		for _, payload := range want {
			p.Add(payload)
		}
		b := p.Take(0)
		p.Add("later")
		p.Add(want[n/2])
		p.Settle(Outcome{Batch: b, Undelivered: b.Entries})
		requireSum(t, p.Stats())
		require.Equal(t, append(want, "later"), payloadsOf(p.Take(0).Entries))
	}
}

// Merging takes nodes out of the list wherever they are: first, last, only.
func TestPendingMergesAtBothEnds(t *testing.T) {
	for _, meanwhile := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"a", "x", "b"}, {"x", "a", "b"}, {"b", "a", "x"}} {
		p := NewPending("c")
		p.Add("a")
		p.Add("b")
		b := p.Take(0)
		for _, payload := range meanwhile {
			p.Add(payload)
		}
		p.Settle(Outcome{Batch: b, Undelivered: b.Entries})
		p.Add("end")
		got := payloadsOf(p.Take(0).Entries)
		require.Equal(t, []string{"a", "b"}, got[:2])
		require.Equal(t, "end", got[len(got)-1])
		requireSum(t, p.Stats())
	}
}

func TestPendingTakesAPart(t *testing.T) {
	p := NewPending("c")
	for _, payload := range []string{"a", "b", "c", "d", "e"} {
		p.Add(payload)
	}
	b := p.Take(2)
	require.Equal(t, []string{"a", "b"}, payloadsOf(b.Entries))
	p.Add("c")
	p.Add("f")
	p.Settle(Outcome{Batch: b, Undelivered: b.Entries[1:]})
	require.Equal(t, []string{"b", "c", "d", "e", "f"}, payloadsOf(p.Take(99).Entries))
	require.Empty(t, p.Take(0).Entries)
	requireSum(t, p.Stats())
}

func TestPendingRefusesAfterClose(t *testing.T) {
	p := NewPending("c")
	p.Add("a")
	p.Close()
	p.Close()
	require.False(t, p.Add("a"))
	require.False(t, p.Add("b"))
	require.Equal(t, []string{"a"}, payloadsOf(p.Take(0).Entries))
	s := p.Stats()
	require.EqualValues(t, 1, s.Added)
	require.EqualValues(t, 2, s.Refused)
}

func TestPendingWakesWheneverItHasBecomeNonEmpty(t *testing.T) {
	p := NewPending("c")
	woken := func() bool {
		select {
		case <-p.Wake():
			return true
		default:
			return false
		}
	}
	require.False(t, woken())
	p.Add("a")
	p.Add("b")
	require.True(t, woken())
	require.False(t, woken(), "tokens must not pile up")
	b := p.Take(0)
	p.Add("a")
	require.True(t, woken())
	p.Settle(Outcome{Batch: p.Take(0)})
	p.Settle(Outcome{Batch: b, Undelivered: b.Entries})
	require.True(t, woken(), "what comes back is work too")
}

func TestPendingTellsTheOldest(t *testing.T) {
	p := NewPending("c")
	require.Zero(t, p.Stats().Oldest)
	before := time.Now()
	p.Add("a")
	oldest := p.Stats().Oldest
	require.False(t, oldest.Before(before))
	b := p.Take(0)
	p.Add("b")
	require.Equal(t, oldest, p.Stats().Oldest, "in flight is not delivered yet")
	p.Settle(Outcome{Batch: b, Undelivered: b.Entries})
	require.Equal(t, oldest, p.Stats().Oldest)
	p.Settle(Outcome{Batch: p.Take(0)})
	require.Zero(t, p.Stats().Oldest)
}

func TestPendingAddDoesNotAllocateWhenPresent(t *testing.T) {
	p := NewPending("c")
	for _, payload := range numbered(1000) {
		p.Add(payload)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() { p.Add("project/domain/run/a000500") }))
}

// The counts are those of one instant whatever goes on, and in the end everything that was added was delivered after it.
func TestPendingAddsUpUnderConcurrency(t *testing.T) {
	p := NewPending("c")
	keys := numbered(2000)
	var writers, others sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range 20_000 {
				p.Add(keys[r.IntN(len(keys))])
			}
		})
	}
	stop := make(chan struct{})
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				requireSum(t, p.Stats())
			}
		}
	})
	others.Go(func() {
		r := rand.New(rand.NewPCG(2, 2))
		settle := func(n int) {
			b := p.Take(n)
			if len(b.Entries) == 0 {
				return
			}
			cut := r.IntN(len(b.Entries) + 1)
			p.Settle(Outcome{Batch: b, Undelivered: b.Entries[cut:]})
		}
		for {
			select {
			case <-stop:
				return
			case <-p.Wake():
				settle(r.IntN(1500))
			default:
				settle(0)
			}
		}
	})
	writers.Wait()
	close(stop)
	others.Wait()

	p.Settle(Outcome{Batch: p.Take(0)})
	s := p.Stats()
	requireSum(t, s)
	require.EqualValues(t, 160_000, s.Added)
	require.Zero(t, s.Pending+s.InFlight)
}

func TestPendingMemoryIsBoundedByKeys(t *testing.T) {
	p := NewPending("c")
	keys := numbered(10)
	for i := range 1_000_000 {
		p.Add(keys[i%10])
	}
	require.Equal(t, 10, p.Len())
	require.Len(t, p.Take(0).Entries, 10)
}
