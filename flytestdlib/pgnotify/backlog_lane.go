package pgnotify

import (
	"math"
	"time"
)

// lane is one channel of a Backlog: its log, and what the distributor knows of its subscribers. Except for the log it belongs to
// the distributor's goroutine.
type lane struct {
	backlog *Backlog
	channel string
	each    Subscribers
	log     *arrivalLog

	known    map[chan string]*subscriber
	looks    uint64        // number of the look under way
	lookedAt time.Duration // when the one before began
	last     arrival       // handed on last: the broadcaster may still hold it
	present  int           // subscribers at the last look
	behind   int           // of these
	scratch  []arrival
	gapLines lineBudget
}

// subscriber is what is known of one subscriber's channel. A current one needs nothing but its look.
type subscriber struct {
	look   uint64 // the last one that found it registered
	behind bool
	next   uint64        // position in the log, when behind
	since  time.Duration // not after the arrival of the first payload that it lacks, when behind
	refeed *refeed       // nil unless the log dropped what it needed
}

func newLane(b *Backlog, channel string, each Subscribers, log *arrivalLog) *lane {
	return &lane{backlog: b, channel: channel, each: each, log: log, known: map[chan string]*subscriber{}, lookedAt: b.now()}
}

// handedOn notes that the broadcaster has taken the payload, and so is done with the one before.
func (l *lane) handedOn(a arrival) {
	l.last = a
	l.backlog.stats.handedOn.Add(1)
}

// look goes through the subscribers: it meets new ones, gives those behind what they have room for, decides, when there is an
// offer, who can leave it to the broadcaster, and forgets those that are gone. Then it lets go of what nobody needs any more.
func (l *lane) look(offer *arrival) {
	now := l.backlog.now()
	l.looks++
	present, behind := 0, 0
	needed := l.last.seq // the first position that somebody needs, or may need if he turns out to be behind

	l.each(func(ch chan string) {
		present++
		s := l.known[ch]
		if s == nil {
			s = &subscriber{}
			l.known[ch] = s
			l.meet(s)
		}
		s.look = l.looks
		if s.behind && offer != nil {
			// Once everything before it is through, what is offered can be left to the broadcaster, as for others who are current.
			if l.feed(ch, s, now, offer.seq); !s.behind && cap(ch)-len(ch) < 2 {
				s.behind, s.next, s.since = true, offer.seq, offer.arrived
			}
		} else if offer != nil && cap(ch)-len(ch) < 2 {
			l.fallBehind(s, *offer)
		}
		if s.behind {
			l.feed(ch, s, now, math.MaxUint64)
		}
		if s.behind {
			behind++
			needed = min(needed, s.next)
		}
	})

	if present < len(l.known) {
		for ch, s := range l.known {
			if s.look != l.looks {
				delete(l.known, ch)
			}
		}
	}
	l.log.trim(needed, now-l.backlog.window)
	l.lookedAt = now

	stats := &l.backlog.stats
	stats.subscribers.Add(int64(present - l.present))
	stats.behind.Add(int64(behind - l.behind))
	l.present, l.behind = present, behind
}

// meet puts a new subscriber behind by the replay window. It registered after the last look, so the window counts from then.
func (l *lane) meet(s *subscriber) {
	s.since = l.lookedAt - l.backlog.window
	var gap bool
	s.next, gap = l.log.since(s.since)
	s.behind = true
	if gap {
		l.startRefeed(s)
	}
}

// fallBehind puts a subscriber behind that may lack the room for offer: from the payload on that the broadcaster may still hold, so
// that nothing of what it holds is owed to the subscriber, and its last place can be used.
func (l *lane) fallBehind(s *subscriber, offer arrival) {
	from := offer
	if l.last.seq > 0 {
		from = l.last
	}
	s.behind, s.next, s.since = true, from.seq, from.arrived
	l.backlog.stats.fellBehind.Add(1)
}

// feed sends what a subscriber that is behind has room for, of what comes before end, and makes it current when that was everything. It waits for
// nothing.
func (l *lane) feed(ch chan string, s *subscriber, now time.Duration, end uint64) {
	room := cap(ch) - len(ch)
	if cap(ch) == 0 {
		room = 1 // if its reader waits at this moment
	}
	if room == 0 {
		return
	}
	if s.refeed != nil {
		room -= s.refeed.feed(ch, s, room, now, &l.backlog.stats.fed)
	}

	read, more, gap := l.log.read(s.next, end, room, l.scratch[:0])
	l.scratch = read[:0]
	if gap {
		l.startRefeed(s)
		s.next, s.since = l.log.gap()
		return // the rest at the next look
	}
	for _, a := range read {
		select {
		case ch <- a.payload:
			s.next, s.since = a.seq+1, a.arrived
			l.backlog.stats.fed.Add(1)
		default: // the broadcaster has taken the place
			s.next = a.seq
			return
		}
	}
	s.behind = more || s.refeed != nil
}
