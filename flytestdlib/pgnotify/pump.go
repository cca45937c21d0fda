package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

const (
	// closeTimeout bounds a Close whose context has no deadline.
	closeTimeout = 10 * time.Second

	// closingRest is the longest rest after Close: a server that comes back just before the deadline is to be noticed.
	closingRest = 250 * time.Millisecond
)

// Pump decides what is to be sent next: it holds a Pending set per channel, takes the channels in turn so that a busy or
// failing one does not starve the others, lets a channel rest after a failure, and brings everything to an end on Close.
// Who sends is the caller's loop:
//
//	for channel := range pump.Due() {
//		pump.Settle(sender.Send(ctx, pump.Take(channel)))
//	}
//
// There is no timer for gathering: while one statement is under way the next batch gathers by itself, and an idle pump sends
// at once.
//
// Add, Stats and Close may be called from any goroutine; Due, Take and Settle belong to the one goroutine that runs the loop.
type Pump struct {
	channels map[string]*pumpChannel // fixed at construction
	order    []*pumpChannel
	wake     chan struct{}
	flushed  chan struct{} // closed when the pump is closed and nothing is pending or in flight
	over     chan struct{} // closed when the time for flushing is over: Due ends

	mu      sync.Mutex
	turn    int // index in order of the channel that is asked first
	closed  bool
	stopped error // why over is closed
	ended   bool  // flushed is closed

	onSettled atomic.Pointer[func(o Outcome, now time.Time)] // is told of each outcome, in the goroutine that settles it
}

type pumpChannel struct {
	name    string
	pending *Pending

	// Guarded by Pump.mu.
	backoff backoff
	retryAt time.Time // nothing is due before; zero when the last batch went well
	outage  outage
	lastErr error // of the outage under way
}

// ChannelStats is a snapshot of one channel of a Pump.
type ChannelStats struct {
	PendingStats
	Failures     int       // attempts failed in a row
	FailingSince time.Time // the first of them; zero when there is none
	LastErr      error     // why the last of them failed
	NextTry      time.Time // when the next attempt is due
}

// NewPump returns a pump for the given channels. Channel names are PostgreSQL identifiers of 1 to 63 bytes, taken as they are:
// neither folded to lower case nor quoted.
func NewPump(channels ...string) (*Pump, error) {
	p := &Pump{
		channels: make(map[string]*pumpChannel, len(channels)),
		wake:     make(chan struct{}, 1),
		flushed:  make(chan struct{}),
		over:     make(chan struct{}),
	}
	for _, name := range channels {
		if err := checkChannel(name); err != nil {
			return nil, fmt.Errorf("pgnotify pump: %w", err)
		}
		if p.channels[name] != nil {
			return nil, fmt.Errorf("pgnotify pump: channel %q is named twice", name)
		}
		c := &pumpChannel{name: name, pending: newPending(name, p.wake), backoff: newBackoff()}
		p.channels[name] = c
		p.order = append(p.order, c)
	}
	return p, nil
}

// channel panics for an unknown name, as an index out of range does: which channels there are is fixed in the program.
func (p *Pump) channel(name string) *pumpChannel {
	c := p.channels[name]
	if c == nil {
		panic(fmt.Sprintf("pgnotify: the pump has no channel %q", name))
	}
	return c
}

// Add makes sure that payload will be sent on channel after this moment. It never blocks, does no I/O, and costs about as much as a
// map look-up. It returns false after Close: then nothing will be sent, and the caller decides whether that is worth a
// word.
func (p *Pump) Add(channel, payload string) bool {
	return p.channel(channel).pending.Add(payload)
}

// Due yields the channel whose turn it is, whenever one has something to send and is not resting after a failure, and waits in
// between. It ends when the pump has been closed and everything was sent, or the time for that is over. The body
// is expected to Take from the channel and to Settle what it took.
func (p *Pump) Due() iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			channel, rest, more := p.next(time.Now())
			switch {
			case !more:
				return
			case channel != "":
				if !yield(channel) {
					return
				}
			default:
				p.sleep(rest)
			}
		}
	}
}

// next returns the channel whose turn it is, or how long all those with work still rest (0: there is no work), or that there
// is no more to come.
func (p *Pump) next(now time.Time) (channel string, rest time.Duration, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.stopped != nil || p.ended {
		return "", 0, false
	}
	for i := range p.order {
		at := (p.turn + i) % len(p.order)
		c := p.order[at]
		if c.pending.Len() == 0 {
			continue
		}
		if wait := c.retryAt.Sub(now); wait > 0 {
			if rest == 0 || wait < rest {
				rest = wait
			}
			continue
		}
		p.turn = (at + 1) % len(p.order)
		return c.name, 0, true
	}
	return "", rest, true
}

// sleep waits for a wake-up, at most for rest when that is positive. An Add during a rest wakes it too, when it was the
// first of its channel; then the rest goes on by the clock.
func (p *Pump) sleep(rest time.Duration) {
	if rest <= 0 {
		<-p.wake
		return
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-p.wake:
	case <-timer.C:
	}
}

func (p *Pump) signal() {
	select {
	case p.wake <- struct{}{}:
	default: // a token is there
	}
}

// Take hands out everything that waits on the channel, longest waiting first. The caller owes a Settle.
func (p *Pump) Take(channel string) Batch {
	return p.channel(channel).pending.Take(0)
}

// Settle books what became of a batch: what is undelivered goes back to the front of its channel, which then rests, the
// longer the more often it has failed in a row; a batch without an error ends that.
func (p *Pump) Settle(o Outcome) {
	c := p.channel(o.Batch.Channel)
	c.pending.Settle(o)
	now := time.Now()
	if observe := p.onSettled.Load(); observe != nil {
		(*observe)(o, now)
	}

	p.mu.Lock()
	say := p.settled(c, o, now)
	p.endIfFlushed()
	p.mu.Unlock()

	say() // not under the lock: a log may block
}

// settled brings the channel's rest up to date and returns what there is to log about it.
func (p *Pump) settled(c *pumpChannel, o Outcome, now time.Time) (say func()) {
	ctx := context.Background()

	if o.Err == nil {
		lasted, failures := now.Sub(c.outage.since), c.outage.failures
		tell := c.outage.healed()
		c.backoff.reset()
		c.retryAt, c.lastErr = time.Time{}, nil
		return func() {
			if tell {
				logger.Infof(ctx, "notifications on %s are sent again after %s and %d failed attempts: %d delivered at once",
					c.name, lasted.Round(time.Millisecond), failures, o.Delivered())
			}
		}
	}

	if o.Delivered() > 0 {
		c.backoff.reset() // part of it went well: the server is there
	}
	rest := c.backoff.next()
	if p.closed {
		rest = min(rest, closingRest)
	}
	c.retryAt, c.lastErr = now.Add(rest), o.Err
	tell := c.outage.failed(now)
	failures, lasted, untold := c.outage.failures, now.Sub(c.outage.since), 0
	if tell {
		untold = c.outage.takeUntold()
	}
	return func() {
		switch {
		case !tell:
		case failures == 1:
			logger.Warnf(ctx, "notifications on %s cannot be sent (%s): %d wait, next try in %s: %v%s",
				c.name, o.Reason, c.pending.Len(), rest.Round(time.Millisecond), o.Err, andUntold(untold))
		default:
			logger.Warnf(ctx, "notifications on %s cannot be sent (%s) for %s, %d attempts failed: %d wait, next try in %s: %v%s",
				c.name, o.Reason, lasted.Round(time.Millisecond), failures, c.pending.Len(), rest.Round(time.Millisecond), o.Err, andUntold(untold))
		}
	}
}

// Stats returns a snapshot of one channel.
func (p *Pump) Stats(channel string) ChannelStats {
	c := p.channel(channel)
	s := ChannelStats{PendingStats: c.pending.Stats()}

	p.mu.Lock()
	defer p.mu.Unlock()
	if c.outage.failures > 0 {
		s.Failures, s.FailingSince = c.outage.failures, c.outage.since
		s.LastErr, s.NextTry = c.lastErr, c.retryAt
	}
	return s
}

// Close lets nothing new in and waits until all that is pending or in flight has been delivered or rejected; a channel that rests after
// a failure is tried again at once. When ctx ends first (or, if it has no deadline, after 10 s), Close makes Due end,
// and returns how many notifications were left, those of a statement without an answer included, together with an error. It
// does not wait for the loop: a Send that is under way ends when its own context does. A second Close tells the same again, at once
// when the first has come to its end.
func (p *Pump) Close(ctx context.Context) (left int, err error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeTimeout)
		defer cancel()
	}
	p.refuse()

	select {
	case <-p.flushed:
		return 0, nil
	case <-p.over:
	case <-ctx.Done():
		p.stop(ctx.Err())
	}
	return p.left()
}

// refuse ends the adding and the resting.
func (p *Pump) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.signal()

	if p.closed {
		return
	}
	p.closed = true
	for _, c := range p.order {
		c.pending.Close()
		c.backoff.reset()
		c.retryAt = time.Time{}
	}
	p.endIfFlushed()
}

// stop ends the flushing.
func (p *Pump) stop(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped == nil {
		p.stopped = why
		close(p.over)
		p.signal()
	}
}

// left counts what was not sent, and says why.
func (p *Pump) left() (left int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	var causes []error
	for _, c := range p.order {
		s := c.pending.Stats()
		left += s.Pending + s.InFlight
		if c.lastErr != nil {
			causes = append(causes, fmt.Errorf("channel %s: %w", c.name, c.lastErr))
		}
	}
	if left == 0 {
		return 0, nil
	}
	causes = append(causes, p.stopped)
	return left, fmt.Errorf("notify pump: %d notifications not delivered in time: %w", left, errors.Join(causes...))
}

// endIfFlushed is called wherever the last entry may have gone, p.mu held.
func (p *Pump) endIfFlushed() {
	if !p.closed || p.ended {
		return
	}
	for _, c := range p.order {
		if s := c.pending.Stats(); s.Pending+s.InFlight > 0 {
			return
		}
	}
	p.ended = true
	close(p.flushed)
}
