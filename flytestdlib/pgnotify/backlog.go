package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// BacklogConfig configures a Backlog. The zero value is usable.
type BacklogConfig struct {
	// ReplayWindow is how far back a new subscriber is given what arrived before it was noticed. It must cover the time from reading
	// the state that the subscriber starts from until its registration. Default 5 s. Longer forgives slower callers, and
	// makes each new subscriber read more for nothing: everything that changed in the window once more.
	ReplayWindow time.Duration

	// MaxPayloads and MaxBytes bound, per channel, what is kept for subscribers that are behind and for new ones: the number of
	// different payloads, and their size together with the bookkeeping (about 100 bytes each). Beyond, the oldest are dropped
	// and those who still needed them get a catch-up instead. Defaults 262,144 and 64 MiB.
	MaxPayloads int
	MaxBytes    int

	// OnArrival, if set, is told of each payload that arrives, or that a catch-up finds for a subscriber, before any subscriber can be given it: here
	// what a subscriber reads may be read ahead for it, and what was read too early be forgotten. It is called by the goroutine that reads the
	// connection, and by others, several at a time: it must not wait for anything but a mutex that is held briefly.
	OnArrival func(channel, payload string)
}

// Defaults of BacklogConfig.
const (
	DefaultReplayWindow = 5 * time.Second
	DefaultMaxPayloads  = 1 << 18
	DefaultMaxBytes     = 64 << 20
)

// WithDefaults returns a copy in which zero fields have their defaults.
func (c BacklogConfig) WithDefaults() BacklogConfig {
	if c.ReplayWindow == 0 {
		c.ReplayWindow = DefaultReplayWindow
	}
	if c.MaxPayloads == 0 {
		c.MaxPayloads = DefaultMaxPayloads
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	return c
}

func (c BacklogConfig) validate() error {
	switch {
	case c.ReplayWindow < 0:
		return fmt.Errorf("ReplayWindow is %s, it must be positive", c.ReplayWindow)
	case c.MaxPayloads < 1:
		return fmt.Errorf("MaxPayloads is %d, it must be at least 1", c.MaxPayloads)
	case c.MaxBytes < 1:
		return fmt.Errorf("MaxBytes is %d, it must be at least 1", c.MaxBytes)
	}
	return nil
}

// Subscribers calls visit for every subscriber of one channel, all the while holding the lock under which subscribers are
// added, removed and closed, for reading; so visit never meets a closed one. It must not visit one twice.
type Subscribers func(visit func(subscriber chan string))

// How often a Backlog looks after its subscribers when no payload gives a reason to.
const (
	feedInterval = 5 * time.Millisecond   // while one of them is behind
	lookInterval = 100 * time.Millisecond // else, for new ones
)

// Backlog stands between what arrives and a broadcaster that offers each payload to every subscriber without waiting for any of them, and skips
// those that are full. The broadcaster knows nothing of the Backlog: it reads Notify. What it cannot do is done around
// it: a payload for which a subscriber may have no room is noted for that subscriber, and the Backlog itself sends
// it as room appears.
//
//	arrive ─► log ─► distributor ─► Notify ─► broadcaster ─► subscribers with room
//	           └───────── distributor ────────────────────► subscribers that are behind, at their own pace
//
// The log holds each payload once for all subscribers; a subscriber that is behind has a position in it, and nothing else.
// So memory is bounded by the number of different payloads, however many subscribers are behind, and noting a
// payload for a subscriber costs the comparison of a length.
//
// # Why nothing is missed
//
// One goroutine, the distributor, does everything but append. For each payload, before it offers it on Notify, it looks at every
// subscriber, under the lock of Subscribers, and decides: the subscriber is *current* and the broadcaster will serve it, or it is
// *behind*, and the distributor will. Nobody else sends to a subscriber but the broadcaster, so room that was seen can only be taken by it:
//
//   - Notify is unbuffered and the broadcaster handles one payload at a time, so when a payload is looked at, at most
//     one earlier payload is still in the broadcaster's hands. A current subscriber with room for two
//     has room for both; so it stays current. With less room it becomes behind, from that earlier payload on.
//   - The distributor sends to those behind only. Nothing that the broadcaster holds is owed to them, so it may use their
//     last free place. What the broadcaster offers them as well arrives twice, which is harmless.
//   - A subscriber that has been sent everything before the payload on offer is current again, if it has the room for that one that
//     every current subscriber has; or when there is no offer, and it has been sent everything.
//   - A subscriber that was not there at the last look is new, and behind from ReplayWindow before *that look* on: whenever it
//     was noticed, it registered after that look. A distributor that was held up thus costs it nothing.
//   - A payload that arrives again goes to the end of the log, or stays in place if it was not handed on yet. Positions are
//     sequence numbers, so whoever has not passed its old place has not passed its new one.
//   - Removing a subscriber happens under the write lock of Subscribers, between two looks.
//   - When the log drops payloads at its limits, positions in the gap are found out when they are next read: those subscribers alone are
//     given a page of a catch-up at a time (see backlogRefeed). Payloads that nobody was handed yet are asked for again for
//     everybody, from the owner (onLost).
//
// The appending side waits for nothing but a mutex that is never held while anything waits.
type Backlog struct {
	// Notify is what the broadcaster reads. It is never closed, and no nil is sent on it.
	Notify <-chan *Notification

	notify  chan *Notification
	window  time.Duration
	lanes   []*lane // fixed at construction
	byName  map[string]*lane
	started time.Time
	now     func() time.Duration // since started: what arrivals are stamped with
	wake    chan struct{}
	refeeds *refeeds
	retold  retellings

	onArrival func(channel, payload string)
	// Set by the owner before run.
	onLost func(since time.Time) // payloads that arrived from since on were dropped before they were handed on

	stats backlogCounters
}

type backlogCounters struct {
	handedOn, fellBehind, fed, gaps atomic.Uint64
	subscribers, behind             atomic.Int64
}

// BacklogStats is a snapshot of what a Backlog has done and holds.
type BacklogStats struct {
	Arrived    uint64 // payloads that came in
	Folded     uint64 // of these, equal to one that was still kept
	Lost       uint64 // dropped at a limit before they were handed on, to be found by a catch-up
	HandedOn   uint64 // sent on Notify
	FellBehind uint64 // times a subscriber had no room
	Fed        uint64 // payloads sent to subscribers that were behind
	Gaps       uint64 // times a subscriber that was behind missed what was dropped, and was given a catch-up

	Waiting     int // payloads not yet handed on
	Kept        int // different payloads in memory, those included
	Bytes       int // that they take
	Subscribers int // at the last look
	Behind      int // of these
}

// NewBacklog returns a Backlog for the channels that are the keys of subscribers.
func NewBacklog(cfg BacklogConfig, subscribers map[string]Subscribers) (*Backlog, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("pgnotify backlog: %w", err)
	}
	if len(subscribers) == 0 {
		return nil, errors.New("pgnotify backlog: no channel is named")
	}
	notify := make(chan *Notification)
	b := &Backlog{
		Notify: notify, notify: notify,
		window:  cfg.ReplayWindow,
		byName:  make(map[string]*lane, len(subscribers)),
		started: time.Now(),
		wake:    make(chan struct{}, 1),
		refeeds: newRefeeds(),
		onLost:  func(time.Time) {},

		onArrival: cfg.OnArrival,
	}
	if b.onArrival == nil {
		b.onArrival = func(string, string) {}
	}
	b.refeeds.onArrival = b.onArrival
	b.now = func() time.Duration { return time.Since(b.started) }
	for name, each := range subscribers {
		if err := checkChannel(name); err != nil {
			return nil, fmt.Errorf("pgnotify backlog: %w", err)
		}
		if each == nil {
			return nil, fmt.Errorf("pgnotify backlog: channel %q has no Subscribers", name)
		}
		b.byName[name] = newLane(b, name, each, newArrivalLog(cfg.MaxPayloads, cfg.MaxBytes))
	}
	for _, name := range b.channels() {
		b.lanes = append(b.lanes, b.byName[name])
	}
	return b, nil
}

// channels returns the names of the channels in a fixed order.
func (b *Backlog) channels() []string {
	var names []string
	for name := range b.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// arrive takes in a payload. It never waits. A channel that nobody can subscribe to is ignored.
func (b *Backlog) arrive(channel, payload string) {
	lane := b.byName[channel]
	if lane == nil {
		return
	}
	b.onArrival(channel, payload)
	if from, lost := lane.log.add(payload, b.now); lost {
		b.onLost(b.started.Add(b.retold.reach(from)))
	}
	select {
	case b.wake <- struct{}{}:
	default: // a token is there
	}
}

// EachRecent calls visit for each payload of channel that a subscriber is given which registers now: what has not been handed on yet, and what
// was within ReplayWindow, in order of arrival. What arrives meanwhile may be left out. No lock is held when visit is called. A channel that is
// not the Backlog's has none.
func (b *Backlog) EachRecent(channel string, visit func(payload string)) {
	if lane := b.byName[channel]; lane != nil {
		from, _ := lane.log.since(b.now() - b.window)
		lane.log.each(from, visit)
	}
}

// crowded tells whether so much waits on channel that whoever can pause should.
func (b *Backlog) crowded(channel string) bool {
	lane := b.byName[channel]
	if lane == nil {
		return false
	}
	size := lane.log.size()
	return size.waiting > lane.log.maxPayloads/4 || size.bytes > lane.log.maxBytes/2 && size.waiting > size.kept/2
}

// run is the distributor. It returns soon after ctx ends, unless Subscribers does not return.
func (b *Backlog) run(ctx context.Context) {
	tick := newPacer(lookInterval)
	defer tick.stop()
	for turn := 0; ctx.Err() == nil; turn++ {
		lane, next, there := b.take(turn)
		if !there {
			select {
			case <-b.wake:
			case <-tick.C():
				b.look(tick)
			case page := <-b.refeeds.fetched:
				page.refeed.accept(page, b.now())
			case <-ctx.Done():
			}
			continue
		}

		lane.look(&next)
		tick.hurry(b.hurried())
		n := &Notification{Channel: lane.channel, Extra: next.payload}
		for offered := true; offered; {
			select {
			case b.notify <- n:
				lane.handedOn(next)
				offered = false
			case <-tick.C():
				b.look(tick)
			case page := <-b.refeeds.fetched:
				page.refeed.accept(page, b.now())
			case <-ctx.Done():
				return
			}
		}
	}
}

// take takes the next payload, from the channels in turn.
func (b *Backlog) take(turn int) (*lane, arrival, bool) {
	for i := range b.lanes {
		lane := b.lanes[(turn+i)%len(b.lanes)]
		if next, there := lane.log.take(b.now); there {
			return lane, next, true
		}
	}
	return nil, arrival{}, false
}

// look looks after all subscribers.
func (b *Backlog) look(tick *pacer) {
	for _, lane := range b.lanes {
		lane.look(nil)
	}
	tick.hurry(b.hurried())
}

// hurried is the interval until the next look.
func (b *Backlog) hurried() time.Duration {
	for _, lane := range b.lanes {
		if lane.behind > 0 {
			return feedInterval
		}
	}
	return lookInterval
}

// Stats returns what the Backlog has done so far.
func (b *Backlog) Stats() BacklogStats {
	s := BacklogStats{
		HandedOn: b.stats.handedOn.Load(), FellBehind: b.stats.fellBehind.Load(),
		Fed: b.stats.fed.Load(), Gaps: b.stats.gaps.Load(),
		Subscribers: int(b.stats.subscribers.Load()), Behind: int(b.stats.behind.Load()),
	}
	for _, lane := range b.lanes {
		size := lane.log.size()
		s.Arrived += size.added
		s.Folded += size.folded
		s.Lost += size.lost
		s.Waiting += size.waiting
		s.Kept += size.kept
		s.Bytes += size.bytes
	}
	return s
}

// pacer is a ticker whose interval changes without starting anew when it does not.
type pacer struct {
	ticker   *time.Ticker
	interval time.Duration
}

func newPacer(interval time.Duration) *pacer {
	return &pacer{ticker: time.NewTicker(interval), interval: interval}
}

func (p *pacer) C() <-chan time.Time { return p.ticker.C }

func (p *pacer) hurry(interval time.Duration) {
	if interval != p.interval {
		p.interval = interval
		p.ticker.Reset(interval)
	}
}

func (p *pacer) stop() { p.ticker.Stop() }
