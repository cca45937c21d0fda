package pgnotify

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sweepBench is a sweeper with a database that is a slice of pages.
type sweepBench struct {
	*sweeper
	pages   [][]Change // what each page returns
	fail    atomic.Bool
	asked   []time.Time // since, for each first page
	arrived []string
	full    atomic.Bool
	onPage  func()
}

func newSweepBench() *sweepBench {
	b := &sweepBench{}
	b.sweeper = &sweeper{
		overlap: 10 * time.Second, timeout: time.Minute,
		seen:      newSightings(100),
		started:   time.Now(),
		requests:  make(chan sweepRequest, 1),
		backoff:   newBackoff(),
		arrive:    func(_, payload string) { b.arrived = append(b.arrived, payload) },
		crowded:   func(string) bool { return b.full.Load() },
		retelling: func(time.Time) func() { return func() {} },
		read: func(_ context.Context, since time.Time, after string) ([]Change, string, error) {
			if b.onPage != nil {
				b.onPage()
			}
			if after == "" {
				b.asked = append(b.asked, since)
			}
			if b.fail.Load() {
				return nil, "", errors.New("no")
			}
			i := len(after)
			if i >= len(b.pages) {
				return nil, "", nil
			}
			next := after + "x"
			if i == len(b.pages)-1 {
				next = ""
			}
			return b.pages[i], next, nil
		},
	}
	return b
}

var clock = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) // the server's, at the start

// markAt is a mark taken so long after the sweeper's start.
func (b *sweepBench) markAt(after time.Duration, xmax string, open ...openTx) mark {
	m := mark{at: clock.Add(after), taken: b.started.Add(after), incarnation: "i", open: map[openTx]struct{}{}}
	m.snapshot, _ = parseSnapshot(xmax + ":" + xmax + ":")
	for _, tx := range open {
		m.open[tx] = struct{}{}
	}
	return m
}

func (b *sweepBench) lastAsked() string {
	return b.asked[len(b.asked)-1].UTC().Format(time.TimeOnly)
}

func TestSweepReachesBackToTheLastCompleteOne(t *testing.T) {
	b := newSweepBench()
	ctx := t.Context()
	require.NoError(t, b.sweep(ctx, b.markAt(3*time.Second, "100")))
	assert.Equal(t, "11:59:50", b.lastAsked(), "the first: to the start, less the overlap")
	require.NoError(t, b.sweep(ctx, b.markAt(time.Minute, "200")))
	assert.Equal(t, "11:59:53", b.lastAsked())
	b.fail.Store(true)
	require.Error(t, b.sweep(ctx, b.markAt(2*time.Minute, "300")))
	assert.Equal(t, "12:00:50", b.lastAsked())
	b.fail.Store(false)
	require.NoError(t, b.sweep(ctx, b.markAt(3*time.Minute, "400")))
	assert.Equal(t, "12:00:50", b.lastAsked(), "the one that failed does not count")
}

func TestSweepReachesBackForATransactionThatHasEndedSince(t *testing.T) {
	b := newSweepBench()
	ctx := t.Context()
	long := openTx{pid: 7, start: clock.Add(-time.Hour).UnixMicro()}
	require.NoError(t, b.sweep(ctx, b.markAt(time.Minute, "100", long)))
	require.NoError(t, b.sweep(ctx, b.markAt(2*time.Minute, "200", long)))
	assert.Equal(t, "12:00:50", b.lastAsked(), "it is still open: nothing of it can be seen")
	require.NoError(t, b.sweep(ctx, b.markAt(3*time.Minute, "300", openTx{pid: 7, start: clock.UnixMicro()})))
	assert.Equal(t, "10:59:50", b.lastAsked(), "its session has gone on to another one")
	require.NoError(t, b.sweep(ctx, b.markAt(4*time.Minute, "400")))
	assert.Equal(t, "11:59:50", b.lastAsked())
	require.NoError(t, b.sweep(ctx, b.markAt(5*time.Minute, "500")))
	assert.Equal(t, "12:03:50", b.lastAsked(), "once")
}

func TestSweepDoesNotTrustAClockThatJumps(t *testing.T) {
	b := newSweepBench()
	require.NoError(t, b.sweep(t.Context(), b.markAt(time.Minute, "100")))
	back := b.markAt(2*time.Minute, "200")
	back.at = clock // another server, whose clock is two minutes behind
	require.NoError(t, b.sweep(t.Context(), back))
	assert.Equal(t, "11:58:50", b.lastAsked(), "what the new server stamped since the last mark")

	forth := b.markAt(3*time.Minute, "300")
	forth.at = clock.Add(time.Hour) // or this process was stopped for as long, and its clock with it
	require.NoError(t, b.sweep(t.Context(), forth))
	assert.Equal(t, "11:59:50", b.lastAsked(), "back to the last mark, as the server had it")
}

func TestSweepAnnouncesWhatIsNotKnownToHaveBeenHeard(t *testing.T) {
	b := newSweepBench()
	require.NoError(t, b.sweep(t.Context(), b.markAt(0, "30")))
	b.seen.saw("c", "heard", mustParse(t, "50:50:"))
	b.pages = [][]Change{{change("heard", 40), change("missed", 41)}, {change("heard", 60)}}
	b.seen.mark()
	require.NoError(t, b.sweep(t.Context(), b.markAt(time.Second, "70")))
	assert.Equal(t, []string{"missed", "heard"}, b.arrived)
	assert.EqualValues(t, 3, b.rows.Load())
	assert.EqualValues(t, 2, b.delivered.Load())

	b.arrived = nil
	b.pages = [][]Change{{change("heard", 40), change("missed", 41), change("heard", 60), change("late", 75)}}
	b.seen.mark()
	require.NoError(t, b.sweep(t.Context(), b.markAt(time.Minute, "80")))
	assert.Equal(t, []string{"late"}, b.arrived, "the overlap is not announced again")
}

// After a crash the server gives out the last transaction numbers once more.
func TestSweepTrustsNoSnapshotOfAnotherIncarnation(t *testing.T) {
	b := newSweepBench()
	require.NoError(t, b.sweep(t.Context(), b.markAt(time.Second, "100")))
	b.seen.saw("c", "a", mustParse(t, "100:100:"))
	b.pages = [][]Change{{change("a", 99)}}
	after := b.markAt(2*time.Second, "99")
	after.incarnation = "ii"
	require.NoError(t, b.sweep(t.Context(), after))
	assert.Equal(t, []string{"a"}, b.arrived)
}

// Also when no sweep of the one before has come to its end.
func TestSweepTrustsNoSnapshotFromBeforeTheFirstCompleteSweep(t *testing.T) {
	b := newSweepBench()
	b.seen.saw("c", "a", mustParse(t, "100:100:"))
	b.fail.Store(true)
	require.Error(t, b.sweep(t.Context(), b.markAt(time.Second, "100")))
	b.seen.saw("c", "b", mustParse(t, "100:100:"))
	b.fail.Store(false)
	b.pages = [][]Change{{change("a", 99), change("b", 99)}}
	after := b.markAt(2*time.Second, "99")
	after.incarnation = "ii"
	require.NoError(t, b.sweep(t.Context(), after))
	assert.Equal(t, []string{"a", "b"}, b.arrived)
}

func TestSweepIsNotCompleteWhenNotificationsWereDroppedMeanwhile(t *testing.T) {
	b := newSweepBench()
	require.NoError(t, b.sweep(t.Context(), b.markAt(time.Minute, "100")))
	b.onPage = func() { b.lost(b.started.Add(30 * time.Second)) }
	b.pages = [][]Change{{change("a", 90)}}
	require.ErrorContains(t, b.sweep(t.Context(), b.markAt(2*time.Minute, "200")), "dropped")
	assert.True(t, b.owes())
	b.onPage, b.arrived = nil, nil
	require.NoError(t, b.sweep(t.Context(), b.markAt(3*time.Minute, "300")))
	assert.Equal(t, "12:00:20", b.lastAsked(), "from when the first that was dropped had arrived, less the overlap")
	assert.Equal(t, []string{"a"}, b.arrived, "though a sweep had seen to it: it may have been what was dropped")
	assert.False(t, b.owes())
}

func TestSweepDoesNotGoInCircles(t *testing.T) {
	b := newSweepBench()
	b.read = func(context.Context, time.Time, string) ([]Change, string, error) { return nil, "here", nil }
	require.ErrorContains(t, b.sweep(t.Context(), b.markAt(0, "1")), `the page after "here" is followed by itself`)
}

func TestSweepNamesTheLimitThatRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSweepBench()
		b.read = func(ctx context.Context, _ time.Time, _ string) ([]Change, string, error) {
			<-ctx.Done()
			return nil, "", ctx.Err()
		}
		err := b.sweep(t.Context(), b.markAt(0, "1"))
		require.ErrorContains(t, err, "no page within 1m0s")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSweepWaitsWhileThereIsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSweepBench()
		b.full.Store(true)
		b.pages = [][]Change{{change("a", 1)}}
		time.AfterFunc(time.Hour, func() { b.full.Store(false) })
		start := time.Now()
		require.NoError(t, b.sweep(t.Context(), b.markAt(0, "1")))
		assert.GreaterOrEqual(t, time.Since(start), time.Hour)
		assert.Equal(t, []string{"a"}, b.arrived)

		b.full.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, b.sweep(ctx, b.markAt(0, "1")), context.DeadlineExceeded)
	})
}

// A request that cannot be served is tried again, a younger one takes its place, and neither is given up.
func TestSweeperInsists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSweepBench()
		b.fail.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.run(ctx)
		}()
		var complete []string
		b.request(sweepRequest{mark: b.markAt(0, "1"), complete: func() { complete = append(complete, "first") }})
		time.Sleep(time.Hour)
		synctest.Wait()
		attempts := b.failures.Load()
		assert.Greater(t, attempts, uint64(600), "at least every 5 s")
		assert.Less(t, attempts, uint64(1600), "not more often than every 2.5 s, once it has failed some times")

		b.request(sweepRequest{mark: b.markAt(time.Hour, "2"), complete: func() { complete = append(complete, "second") }})
		time.Sleep(time.Minute)
		synctest.Wait()
		b.fail.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"second"}, complete)
		assert.EqualValues(t, 2, b.done.snapshot.xmax)

		cancel()
		<-ended
	})
}
