package pgnotify

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// crowdedPause is how long a sweep waits for the distributor before it looks again whether there is room.
const crowdedPause = 10 * time.Millisecond

// sweeper finds what changed without being heard of, by the caller's CatchUp, and lets it arrive as if it had been.
//
// A sweep asks for what is stamped at or after the last complete sweep's mark, less the overlap, and less what transactions that were
// open at that mark and have ended since may have stamped. So, whatever a transaction's length, every row version is in the range of
// the first sweep that can see it, and of those that follow it can be left out if it was committed before that sweep's snapshot.
//
// Its goroutine asks nothing of the listening connection: a sweep goes on while that is replaced.
type sweeper struct {
	read             CatchUp
	overlap, timeout time.Duration
	seen             *sightings
	arrive           func(channel, payload string)
	crowded          func(channel string) bool
	retelling        func(since time.Time) (end func())
	started          time.Time // nothing from before is owed to anybody
	requests         chan sweepRequest

	// Belongs to run.
	done    *mark  // of the last complete sweep
	server  string // the incarnation of the last mark, whatever became of its sweep
	backoff backoff
	outage  outage

	mu       sync.Mutex
	lostFrom time.Time // by our clock; what arrived from then on may have been dropped before anybody got it; zero: nothing
	losses   uint64

	failures, rows, delivered atomic.Uint64
}

// sweepRequest is a mark to sweep up to; complete is called from the sweeper's goroutine when that is done.
type sweepRequest struct {
	mark     mark
	complete func()
}

// request asks for a sweep. It replaces a request that has not been begun. One goroutine calls it.
func (s *sweeper) request(r sweepRequest) {
	select {
	case <-s.requests:
	default:
	}
	s.requests <- r
}

// lost is called when what arrived from at on was dropped before anybody got it.
func (s *sweeper) lost(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses++
	if s.lostFrom.IsZero() || at.Before(s.lostFrom) {
		s.lostFrom = at
	}
	s.seen.reset()
}

// owes tells whether something was dropped that no complete sweep has looked for yet.
func (s *sweeper) owes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lostFrom.IsZero()
}

func (s *sweeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.requests:
			s.insist(ctx, r)
		}
	}
}

// insist sweeps until it is complete.
func (s *sweeper) insist(ctx context.Context, r sweepRequest) {
	for {
		err := s.sweep(ctx, r.mark)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			s.succeeded()
			r.complete()
			return
		}
		select {
		case <-time.After(s.failed(err)):
		case <-ctx.Done():
			return
		}
		select {
		case r = <-s.requests: // a younger mark: what it asks for includes this
		default:
		}
	}
}

func (s *sweeper) succeeded() {
	s.backoff.reset()
	lasted, failures := time.Since(s.outage.since), s.outage.failures
	if s.outage.healed() {
		logger.Infof(context.Background(), "catch-up works again after %s and %d failed attempts", lasted.Round(time.Millisecond), failures)
	}
}

func (s *sweeper) failed(err error) (wait time.Duration) {
	s.failures.Add(1)
	wait = s.backoff.next()
	if s.outage.failed(time.Now()) {
		logger.Warnf(context.Background(), "catch-up failed %d times, changes whose notifications were missed are not found, next try in %s: %v%s",
			s.outage.failures, wait.Round(time.Millisecond), err, andUntold(s.outage.takeUntold()))
	}
	return wait
}

// sweep does one sweep up to m.
func (s *sweeper) sweep(ctx context.Context, m mark) error {
	s.mu.Lock()
	losses, lostFrom := s.losses, s.lostFrom
	s.mu.Unlock()

	if s.server != m.incarnation {
		s.seen.reset()
		s.server = m.incarnation
	}
	since := s.since(m, lostFrom)
	end := s.retelling(m.taken.Add(since.Sub(m.at)))
	defer end()
	for after := ""; ; {
		page, next, err := s.page(ctx, since, after)
		if err != nil {
			return err
		}
		for _, c := range page {
			s.rows.Add(1)
			if s.seen.cover(c) {
				continue
			}
			if err := s.makeRoom(ctx, c.Channel); err != nil {
				return err
			}
			s.delivered.Add(1)
			s.arrive(c.Channel, c.Payload)
		}
		if next == "" {
			break
		}
		if next == after {
			return fmt.Errorf("catch-up since %s: the page after %q is followed by itself", since.Format(time.RFC3339Nano), after)
		}
		after = next
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.losses != losses {
		return fmt.Errorf("catch-up since %s: notifications had to be dropped meanwhile", since.Format(time.RFC3339Nano))
	}
	s.lostFrom = time.Time{}
	s.done = &m
	s.seen.settle(m.snapshot)
	return nil
}

// since is where the sweep up to m begins, by the server's clock. Where the server's clock has jumped, or another server has
// another one, our own says how long ago the last mark was.
func (s *sweeper) since(m mark, lostFrom time.Time) time.Time {
	from := m.at.Add(-m.taken.Sub(s.started))
	if s.done != nil {
		from = m.at.Add(-m.taken.Sub(s.done.taken))
		from = earlier(from, s.done.at)
		for tx := range s.done.open {
			if _, still := m.open[tx]; !still {
				from = earlier(from, tx.startedAt())
			}
		}
	}
	if !lostFrom.IsZero() {
		from = earlier(from, m.at.Add(-m.taken.Sub(lostFrom)))
	}
	return from.Add(-s.overlap)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// page reads one page within the timeout.
func (s *sweeper) page(ctx context.Context, since time.Time, after string) ([]Change, string, error) {
	pageCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	page, next, err := s.read(pageCtx, since, after)
	if err != nil {
		return nil, "", fmt.Errorf("catch-up since %s: %w", since.Format(time.RFC3339Nano), named(ctx, err, "no page", s.timeout))
	}
	return page, next, nil
}

// makeRoom waits while too much waits already: a sweep can pause, the socket cannot.
func (s *sweeper) makeRoom(ctx context.Context, channel string) error {
	for s.crowded(channel) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(crowdedPause):
		}
	}
	return nil
}
