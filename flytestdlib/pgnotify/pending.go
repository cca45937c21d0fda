package pgnotify

import (
	"sync"
	"sync/atomic"
	"time"
)

// Entry is one payload that waits for delivery.
type Entry struct {
	Payload string
	// AddedAt is the moment of the first add since the payload was last handed out: what the delay until delivery counts from.
	AddedAt time.Time
}

// Batch is what Take handed out: payloads of one channel, all different, longest waiting first.
type Batch struct {
	Channel string
	Entries []Entry
}

// Outcome says what became of a batch: each of its entries was delivered, or was rejected, or is in Undelivered.
type Outcome struct {
	Batch Batch
	// Undelivered are the entries to send again, in the batch's order. Some of them may have arrived nevertheless: a
	// connection can break between the server's commit and its answer.
	Undelivered []Entry
	// Rejected counts the entries that PostgreSQL will never take.
	Rejected int
	// Statements are those that were sent, in order.
	Statements []Statement
	// Err says why something is undelivered, and Reason is its class. Err is nil if and only if Undelivered is empty.
	Err    error
	Reason Reason
}

// Statement is what one statement came to.
type Statement struct {
	Payloads int           // that were to be sent by it
	Took     time.Duration // until the server's answer, or until none was waited for any more
	Reason   Reason        // why it failed; empty when it did not
}

func (o *Outcome) fail(undelivered []Entry, err error) {
	o.Undelivered, o.Err, o.Reason = undelivered, err, classify(err)
}

// Delivered counts the entries that the server has confirmed.
func (o Outcome) Delivered() int {
	return len(o.Batch.Entries) - len(o.Undelivered) - o.Rejected
}

// done are the entries that were delivered or rejected, for measuring: a failure ends a batch there, so what is undelivered is
// its end (one that was rejected further behind may be taken for another).
func (o Outcome) done() []Entry {
	return o.Batch.Entries[:len(o.Batch.Entries)-len(o.Undelivered)]
}

// PendingStats is a snapshot of the counts of one channel. At every instant
//
//	Added = Coalesced + Delivered + Rejected + Pending + InFlight
type PendingStats struct {
	Added     uint64 // calls of Add that were accepted
	Coalesced uint64 // of these, folded into an entry that was waiting already
	Delivered uint64 // entries that the server has confirmed
	Rejected  uint64 // entries that PostgreSQL will never take
	Requeued  uint64 // entries that came back undelivered; one entry may come back many times
	Refused   uint64 // calls of Add after the end; not part of Added

	Pending  int // entries waiting
	InFlight int // entries handed out and not yet settled

	// Waited is the time from AddedAt to the server's answer, summed over what was delivered or rejected.
	Waited time.Duration

	// Oldest is the AddedAt of the longest waiting entry, in flight or not; zero when there is none.
	Oldest time.Time
}

// Pending is the set of payloads of one channel that wait for delivery, in order of arrival. Adding a payload that waits
// already changes nothing but a count: the notification that will be sent tells its receivers to read the state of then,
// which includes this update. A payload that was handed out is no longer waiting: adding it again is new work, because the
// notification in flight may be received before this update's commit.
//
// Add is one map look-up under a shared lock when the payload is present, without allocation; otherwise a second one and an insert under
// the exclusive lock, and one small allocation. Memory is bounded by the number of different payloads waiting. No lock is held longer than it takes to
// move a few hundred entries, whatever the size of the set.
//
// Add, Stats and Wake may be called from any goroutine; Take and Settle by one consumer, a batch at a time.
type Pending struct {
	channel string
	wake    chan struct{}

	mu          sync.RWMutex
	index       map[string]*node
	first, last *node
	peak        int  // the largest size of index since it was made
	closed      bool // no more adds
	stats       PendingStats
	inFlight    time.Time // AddedAt of the first entry in flight

	// folded counts what was added and coalesced at once, in place of both counts in stats. It changes under the shared lock, so that who
	// holds the other one sees all counts of one instant.
	folded atomic.Uint64
}

type node struct {
	Entry
	prev, next *node
}

// lockedAtOnce is the most entries that are moved under one hold of the lock.
const lockedAtOnce = 256

// NewPending returns an empty set for one channel.
func NewPending(channel string) *Pending {
	return newPending(channel, make(chan struct{}, 1))
}

func newPending(channel string, wake chan struct{}) *Pending {
	return &Pending{channel: channel, wake: wake, index: map[string]*node{}}
}

// Add puts payload at the end of the set unless it waits already. It never blocks and does no I/O. It returns false, and
// counts the call, when the set has been closed.
func (p *Pending) Add(payload string) bool {
	return p.fold(payload) || p.add(payload)
}

// fold is Add for a payload that waits already; otherwise it returns false and has done nothing. Writers do not exclude each other here:
// with a mutex, a hundred of them on two processors hand it round for up to a millisecond.
func (p *Pending) fold(payload string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()

	if _, waits := p.index[payload]; !waits || p.closed {
		return false
	}
	p.folded.Add(1)
	return true
}

func (p *Pending) add(payload string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed {
		p.stats.Refused++
		return false
	}
	p.stats.Added++
	if _, waits := p.index[payload]; waits { // since fold looked
		p.stats.Coalesced++
		return true
	}
	n := &node{Entry: Entry{Payload: payload, AddedAt: time.Now()}, prev: p.last}
	if p.last != nil {
		p.last.next = n
	} else {
		p.first = n
	}
	p.last = n
	p.insert(n)
	return true
}

// Wake returns the channel on which a token appears whenever the set has become non-empty. Tokens do not pile up, and
// one may come late: the consumer looks at the set after each, and takes until it is empty before it waits.
func (p *Pending) Wake() <-chan struct{} { return p.wake }

// Take hands out up to n entries, all of them when n ≤ 0, longest waiting first. The caller owes Settle for the batch. Taking all
// holds the lock for a moment that does not depend on their number.
func (p *Pending) Take(n int) Batch {
	// What was detached is nobody else's: it is copied without making writers wait.
	first, n := p.detach(n)
	return Batch{Channel: p.channel, Entries: entriesOf(first, n)}
}

// detach cuts the first n nodes (all when n ≤ 0) out of the set and returns the first of them and their number.
func (p *Pending) detach(n int) (*node, int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if n <= 0 || n > len(p.index) {
		n = len(p.index)
	}
	if n == 0 {
		return nil, 0
	}
	first := p.first
	p.stats.InFlight += n
	p.inFlight = first.AddedAt

	if n < len(p.index) {
		for range n {
			delete(p.index, p.first.Payload)
			p.first = p.first.next
		}
		p.first.prev = nil
		return first, n
	}

	p.first, p.last = nil, nil
	if p.peak > lockedAtOnce { // emptying a map costs its capacity, now and at every later time
		p.index = map[string]*node{}
	} else {
		clear(p.index)
	}
	p.peak = 0
	return first, n
}

func entriesOf(first *node, n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = first.Entry
		first = first.next
	}
	return entries
}

// Settle ends the flight of a batch. What is undelivered goes back to the front in its old order with its old times; where the
// payload was added again meanwhile, the two become one at the old place.
func (p *Pending) Settle(o Outcome) {
	// From the back, each entry in front of the one before, so that the pieces end up in order.
	for rest := o.Undelivered; len(rest) > 0; {
		cut := max(0, len(rest)-lockedAtOnce)
		p.requeue(rest[cut:])
		rest = rest[:cut]
	}

	var waited time.Duration
	now := time.Now()
	for _, e := range o.done() {
		waited += now.Sub(e.AddedAt)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Waited += waited
	p.stats.InFlight -= len(o.Batch.Entries) - len(o.Undelivered)
	p.stats.Delivered += uint64(o.Delivered())
	p.stats.Rejected += uint64(o.Rejected)
	p.inFlight = time.Time{}
}

func (p *Pending) requeue(entries []Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.stats.InFlight -= len(entries)
	p.stats.Requeued += uint64(len(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		if again, waits := p.index[entries[i].Payload]; waits {
			p.stats.Coalesced++
			p.unlink(again)
		}
		n := &node{Entry: entries[i], next: p.first}
		if p.first != nil {
			p.first.prev = n
		} else {
			p.last = n
		}
		p.first = n
		p.insert(n)
	}
}

// insert enters a node that has been linked.
func (p *Pending) insert(n *node) {
	p.index[n.Payload] = n
	p.peak = max(p.peak, len(p.index))
	if len(p.index) == 1 {
		select {
		case p.wake <- struct{}{}:
		default: // a token is there
		}
	}
}

func (p *Pending) unlink(n *node) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		p.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		p.last = n.prev
	}
}

// Close makes every further Add a refused one. What waits stays and can be taken. A second call does nothing.
func (p *Pending) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// Len returns the number of entries that wait.
func (p *Pending) Len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.index)
}

// Stats returns the counts as they are at one instant.
func (p *Pending) Stats() PendingStats {
	p.mu.Lock()
	defer p.mu.Unlock()

	s := p.stats
	folded := p.folded.Load()
	s.Added += folded
	s.Coalesced += folded
	s.Pending = len(p.index)
	switch {
	case !p.inFlight.IsZero():
		s.Oldest = p.inFlight
	case p.first != nil:
		s.Oldest = p.first.AddedAt
	}
	return s
}
