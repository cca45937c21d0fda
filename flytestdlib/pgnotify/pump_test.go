package pgnotify

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func newTestPump(t *testing.T, channels ...string) *Pump {
	t.Helper()
	p, err := NewPump(channels...)
	require.NoError(t, err)
	return p
}

// failed is the outcome of a batch of which nothing went out.
func failed(b Batch, why error) Outcome {
	o := Outcome{Batch: b}
	o.fail(b.Entries, why)
	return o
}

func TestPumpChecksItsChannels(t *testing.T) {
	_, err := NewPump("a", "b", "a")
	require.ErrorContains(t, err, `"a" is named twice`)
	_, err = NewPump(strings.Repeat("x", 64))
	require.ErrorContains(t, err, "64 bytes")
	_, err = NewPump("")
	require.ErrorContains(t, err, "empty")
	require.PanicsWithValue(t, `pgnotify: the pump has no channel "b"`, func() { newTestPump(t, "a").Add("b", "x") })
}

// No timer for gathering: an idle pump hands out at once, and the whole batch.
func TestPumpHandsOutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "a", "b")
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			for _, payload := range numbered(3000) {
				pump.Add("b", payload)
			}
		}()
		for channel := range pump.Due() {
			require.Equal(t, "b", channel)
			require.Equal(t, time.Second, time.Since(start))
			synctest.Wait() // until the writer is through
			b := pump.Take(channel)
			require.Equal(t, numbered(3000), payloadsOf(b.Entries))
			pump.Settle(Outcome{Batch: b})
			break
		}
	})
}

func TestPumpTakesTurns(t *testing.T) {
	pump := newTestPump(t, "a", "b", "c")
	var order []string
	pump.Add("a", "1")
	pump.Add("b", "1")
	for channel := range pump.Due() {
		order = append(order, channel)
		pump.Settle(Outcome{Batch: pump.Take(channel)})
		switch len(order) {
		case 1, 2, 3:
			pump.Add("a", "again") // a busy channel
		case 4:
			pump.Add("c", "1")
			pump.Add("a", "again")
		}
		if len(order) == 6 {
			break
		}
	}
	require.Equal(t, []string{"a", "b", "a", "a", "c", "a"}, order)
}

// The other channel goes on, at once each time, while one fails and rests.
func TestPumpFailingChannelDoesNotStarveTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "bad", "good")
		go func() {
			for _, payload := range numbered(1000) {
				pump.Add("bad", payload)
				pump.Add("good", payload)
				time.Sleep(10 * time.Millisecond)
			}
			_, _ = pump.Close(context.Background())
		}()
		attempts, delivered := 0, 0
		for channel := range pump.Due() {
			b := pump.Take(channel)
			if channel == "bad" && delivered < 1000 {
				attempts++
				pump.Settle(failed(b, errors.New("no")))
				continue
			}
			if channel == "good" {
				require.Less(t, time.Since(b.Entries[0].AddedAt), 20*time.Millisecond)
				delivered += len(b.Entries)
			}
			pump.Settle(Outcome{Batch: b})
		}
		require.Equal(t, 1000, delivered)
		require.Less(t, attempts, 20, "10 s of failing, with waits that grow")
		require.EqualValues(t, 1000, pump.Stats("bad").Delivered)
	})
}

func TestPumpRestsLongerWithEachFailureAndStartsOverAfterSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "a")
		pump.Add("a", "x")
		stop := make(chan struct{})
		defer close(stop)
		go func() { // adds must not cut a rest short
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(7 * time.Millisecond):
					pump.Add("a", numbered(50)[i%50])
				}
			}
		}()
		var last time.Time
		full, n := backoffMin, 0
		for channel := range pump.Due() {
			if n > 0 {
				rest := time.Since(last)
				require.GreaterOrEqual(t, rest, full/2, "rest %d", n)
				require.LessOrEqual(t, rest, full, "rest %d", n)
				full = min(2*full, backoffMax)
			}
			n++
			last = time.Now()
			b := pump.Take(channel)
			switch {
			case n == 12:
				require.Equal(t, 11, pump.Stats("a").Failures)
				require.ErrorContains(t, pump.Stats("a").LastErr, "no")
				pump.Settle(Outcome{Batch: b})
				require.Zero(t, pump.Stats("a").Failures)
				require.NoError(t, pump.Stats("a").LastErr)
				n, full = 0, backoffMin
				continue
			case n == 2 && last.Sub(time.Unix(0, 0)) > 0 && pump.Stats("a").Delivered > 0:
				pump.Settle(Outcome{Batch: b})
				return
			}
			pump.Settle(failed(b, errors.New("no")))
		}
	})
}

// Progress ends a streak of failures: the server is there.
func TestPumpRestsShortlyAfterAPartWentWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "a")
		for _, payload := range numbered(100) {
			pump.Add("a", payload)
		}
		start, n := time.Now(), 0
		for channel := range pump.Due() {
			b := pump.Take(channel)
			o := failed(b, errors.New("no"))
			if n++; n > 10 {
				o.Undelivered = o.Undelivered[1:]
				start = time.Now()
			}
			pump.Settle(o)
			if n > 10 {
				require.LessOrEqual(t, pump.Stats("a").NextTry.Sub(start), backoffMin)
			}
			if n == 20 {
				break
			}
		}
	})
}

// A rejected payload is no failure of the channel.
func TestPumpDoesNotRestForPoison(t *testing.T) {
	pump := newTestPump(t, "a")
	pump.Add("a", "bad\x00")
	pump.Add("a", "good")
	server := &fakeServer{}
	s := fakeSender(t, server)
	for channel := range pump.Due() {
		pump.Settle(s.Send(t.Context(), pump.Take(channel)))
		break
	}
	stats := pump.Stats("a")
	require.EqualValues(t, 1, stats.Delivered)
	require.EqualValues(t, 1, stats.Rejected)
	require.Zero(t, stats.Failures)
	require.Zero(t, stats.NextTry)
	requireSum(t, stats.PendingStats)
}

func TestPumpFlushesOnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "a", "b")
		keys := numbered(5000)
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() { // still calling while it closes
				for i := range keys {
					pump.Add("a", keys[i])
					pump.Add("b", keys[i])
					if i%100 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for channel := range pump.Due() {
				b := pump.Take(channel)
				time.Sleep(4 * time.Millisecond)
				pump.Settle(Outcome{Batch: b})
			}
		}()
		time.Sleep(20 * time.Millisecond)
		left, err := pump.Close(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		<-ended
		writers.Wait()
		for _, channel := range []string{"a", "b"} {
			s := pump.Stats(channel)
			requireSum(t, s.PendingStats)
			require.Zero(t, s.Pending+s.InFlight)
			require.EqualValues(t, 20_000, s.Added+s.Refused)
			require.Positive(t, s.Refused)
		}
		left, err = pump.Close(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		require.False(t, pump.Add("a", "late"))
	})
}

func TestPumpCloseWithoutWorkNeedsNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "a")
		start := time.Now()
		left, err := pump.Close(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		require.Zero(t, time.Since(start))
		for range pump.Due() {
			t.Fatal("nothing can be due")
		}
	})
}

// Close ends a rest, goes on trying, and gives up with the deadline, saying how many are left and why.
func TestPumpCloseGivesUpWithItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "a", "b")
		for _, payload := range numbered(100) {
			pump.Add("a", payload)
		}
		ended := make(chan struct{})
		var attempts atomic.Int32
		go func() {
			defer close(ended)
			for channel := range pump.Due() {
				attempts.Add(1)
				pump.Settle(failed(pump.Take(channel), errors.New("refused")))
			}
		}()
		time.Sleep(time.Minute) // rests of 5 s by now
		start, before := time.Now(), attempts.Load()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		left, err := pump.Close(ctx)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, 100, left)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "notify pump: 100 notifications not delivered in time")
		require.ErrorContains(t, err, "channel a: refused")
		require.GreaterOrEqual(t, attempts.Load()-before, int32(3*time.Second/closingRest), "trying until the end")
		<-ended
		require.Equal(t, 3*time.Second, time.Since(start), "the loop ends in the middle of a rest")

		for range 20 { // its context has ended as well: it must not matter which of the two it sees
			left, err = pump.Close(ctx)
			require.Error(t, err)
			require.Equal(t, 100, left, "a second Close says the same")
		}
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

// What was a long outage before Close is none for the flush: its first rests are short again.
func TestPumpCloseStartsTheRestsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "a")
		pump.Add("a", "x")
		var attempts []time.Time
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for channel := range pump.Due() {
				attempts = append(attempts, time.Now())
				pump.Settle(failed(pump.Take(channel), errors.New("refused")))
			}
		}()
		time.Sleep(time.Minute)
		closing := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := pump.Close(ctx)
		require.Error(t, err)
		<-ended

		attempts = slices.DeleteFunc(attempts, func(at time.Time) bool { return at.Before(closing) })
		require.Equal(t, closing, attempts[0], "at once")
		for i, at := range attempts[1:] {
			require.LessOrEqual(t, at.Sub(attempts[i]), min(backoffMin<<min(i, 10), closingRest), "rest %d", i)
		}
	})
}

func TestPumpCloseCountsWhatIsInFlightAsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "a")
		for _, payload := range numbered(10) {
			pump.Add("a", payload)
		}
		hang, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for channel := range pump.Due() {
				b := pump.Take(channel)
				<-hang
				pump.Settle(failed(b, context.Canceled))
			}
		}()
		synctest.Wait()
		start := time.Now()
		left, err := pump.Close(context.Background()) // without a deadline it has its own
		require.Equal(t, closeTimeout, time.Since(start))
		require.Error(t, err)
		require.Equal(t, 10, left)
		close(hang)
		<-ended
		requireSum(t, pump.Stats("a").PendingStats)
	})
}

func TestPumpTellsWhenItDegradesAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pump := newTestPump(t, "runs")
		pump.Add("runs", "x")
		lines := logged(t, func() {
			n := 0
			for channel := range pump.Due() {
				b := pump.Take(channel)
				if n++; n <= 8 {
					pump.Settle(failed(b, state("25006")))
					continue
				}
				pump.Settle(Outcome{Batch: b})
				break
			}
		})
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], "level=WARN")
		require.Contains(t, lines[0], "notifications on runs cannot be sent (read_only): 1 wait, next try in")
		require.Contains(t, lines[1], "level=INFO")
		require.Contains(t, lines[1], "8 failed attempts: 1 delivered at once")
	})
}
