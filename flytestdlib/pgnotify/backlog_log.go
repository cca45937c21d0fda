package pgnotify

import (
	"sort"
	"sync"
	"time"
)

// arrivalLog holds the payloads of one channel in order of arrival, each once: a payload that arrives again after it was handed on moves
// to the end; one that arrives again while it waits keeps its place, since nobody has read for it yet. Readers keep a
// sequence number each, and go on from the first payload at or behind it.
//
//	… ─ handed on, kept for readers that are behind ─┬─ waiting to be handed on ─ …
//	first                                          handed                     next
//
// Memory is bounded by the number of different payloads and by the limits: when one of them is reached, the oldest payload is
// dropped, and whoever still needed it can tell (dropped, lost).
//
// add is one map insert and one append, amortized. Any goroutine may call any method; no lock is held while anything waits.
type arrivalLog struct {
	maxPayloads, maxBytes int

	mu      sync.Mutex
	entries []arrival         // ascending by seq; of those below handed some are dead
	live    map[string]uint64 // payload → seq of its living entry
	peak    int               // the largest size of live since it was made
	bytes   int               // of the living payloads
	dead    int
	waiting int    // living entries at or behind handed
	next    uint64 // the seq of the next arrival; the first is 1
	handed  uint64 // everything below was handed on

	// Everything below dropped may have been dropped at a limit; the latest that did had arrived and been handed on then.
	dropped        uint64
	droppedArrived time.Duration
	droppedTaken   time.Duration

	added, folded, lost uint64 // arrivals; of these folded; dropped while waiting
}

// arrival is one entry. The times count from the start of the Backlog; neither ever decreases along the log.
type arrival struct {
	payload string
	seq     uint64
	arrived time.Duration // the first time, where it arrived again while it was waiting
	taken   time.Duration // when it was handed on, and so not before its last arrival; only below arrivalLog.handed
	dead    bool          // moved to the end
}

// entryBytes is what an entry costs besides its payload, roughly.
const entryBytes = 100

func newArrivalLog(maxPayloads, maxBytes int) *arrivalLog {
	return &arrivalLog{maxPayloads: maxPayloads, maxBytes: maxBytes, live: map[string]uint64{}, next: 1, handed: 1}
}

// add appends payload, and returns when the oldest payload arrived that had to be dropped before it was handed on, if one had to be.
func (l *arrivalLog) add(payload string, now func() time.Duration) (lostFrom time.Duration, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.added++
	if seq, there := l.live[payload]; there {
		l.folded++
		if seq >= l.handed {
			return 0, false
		}
		i := l.find(seq)
		l.kill(i)
	}
	l.entries = append(l.entries, arrival{payload: payload, seq: l.next, arrived: now()})
	l.live[payload] = l.next
	l.peak = max(l.peak, len(l.live))
	l.bytes += len(payload) + entryBytes
	l.next++
	l.waiting++

	for len(l.live) > l.maxPayloads || l.bytes > l.maxBytes && len(l.live) > 1 {
		e := l.pop()
		if e.dead {
			continue
		}
		if e.seq >= l.handed {
			if !lost {
				lostFrom, lost = e.arrived, true
			}
			l.waiting--
			l.lost++
		}
		l.dropped, l.droppedArrived = e.seq+1, e.arrived
		l.droppedTaken = max(l.droppedTaken, e.taken)
	}
	l.compact()
	return lostFrom, lost
}

// kill marks a living entry as dead. The caller sees to live.
func (l *arrivalLog) kill(i int) {
	l.bytes -= len(l.entries[i].payload) + entryBytes
	l.entries[i].payload, l.entries[i].dead = "", true
	l.dead++
}

// pop removes the first entry, living or dead.
func (l *arrivalLog) pop() arrival {
	e := l.entries[0]
	l.entries[0] = arrival{}
	l.entries = l.entries[1:] // append moves the rest to a new array when this one is used up
	if e.dead {
		l.dead--
	} else {
		l.bytes -= len(e.payload) + entryBytes
		delete(l.live, e.payload)
	}
	return e
}

// compact removes the dead when they are the majority, so that each entry is moved once on average.
func (l *arrivalLog) compact() {
	const worthIt = 64
	if l.dead < worthIt || 2*l.dead < len(l.entries) {
		return
	}
	living := make([]arrival, 0, 2*(len(l.entries)-l.dead))
	for _, e := range l.entries {
		if !e.dead {
			living = append(living, e)
		}
	}
	l.entries, l.dead = living, 0
}

// shrink gives back the room of a map that has become much too large: it keeps what it once needed.
func (l *arrivalLog) shrink() {
	if l.peak < 1024 || len(l.live) > l.peak/8 {
		return
	}
	smaller := make(map[string]uint64, len(l.live))
	for payload, seq := range l.live {
		smaller[payload] = seq
	}
	l.live, l.peak = smaller, len(l.live)
}

// find returns the index of the first entry at or behind seq.
func (l *arrivalLog) find(seq uint64) int {
	return sort.Search(len(l.entries), func(i int) bool { return l.entries[i].seq >= seq })
}

// take hands on the oldest payload that waits.
func (l *arrivalLog) take(now func() time.Duration) (arrival, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.waiting == 0 {
		return arrival{}, false
	}
	e := &l.entries[l.find(l.handed)] // nothing that waits is dead
	e.taken = now()
	l.handed = e.seq + 1
	l.waiting--
	return *e, true
}

// read appends to buf up to n payloads that were handed on, from seq on and before end; more tells whether another one follows.
// When payloads at or behind seq were dropped it reads nothing and tells so.
func (l *arrivalLog) read(seq, end uint64, n int, buf []arrival) (read []arrival, more, gap bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if seq < l.dropped {
		return buf, true, true
	}
	for _, e := range l.entries[l.find(seq):] {
		switch {
		case e.seq >= min(end, l.handed):
			return buf, false, false
		case e.dead:
		case n == 0:
			return buf, true, false
		default:
			buf = append(buf, e)
			n--
		}
	}
	return buf, false, false
}

// each visits the payloads from seq on that are there now, some at a time, so that the lock is held briefly.
func (l *arrivalLog) each(seq uint64, visit func(payload string)) {
	const atATime = 256
	var payloads []string
	l.mu.Lock()
	end := l.next
	l.mu.Unlock()
	for seq < end {
		payloads = payloads[:0]
		l.mu.Lock()
		entries := l.entries[l.find(seq):]
		seq = end
		for i, e := range entries {
			if i == atATime || e.seq >= end {
				seq = e.seq
				break
			}
			if !e.dead {
				payloads = append(payloads, e.payload)
			}
		}
		l.mu.Unlock()
		for _, payload := range payloads {
			visit(payload)
		}
	}
}

// gap returns the position behind everything that was dropped at a limit, and when the youngest that was had arrived.
func (l *arrivalLog) gap() (end uint64, arrived time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped, l.droppedArrived
}

// since returns a position with everything behind it that arrived at or after at, the last time it did; and whether something
// that may have was dropped after it had been handed on.
func (l *arrivalLog) since(at time.Duration) (seq uint64, gap bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	i := sort.Search(len(l.entries), func(i int) bool {
		e := &l.entries[i]
		return e.seq >= l.handed || e.taken >= at
	})
	seq = l.next
	if i < len(l.entries) {
		seq = l.entries[i].seq
	}
	return seq, l.dropped > 0 && l.droppedTaken >= at
}

// trim forgets the payloads below seq that were handed on before at.
func (l *arrivalLog) trim(seq uint64, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()

	seq = min(seq, l.handed)
	for len(l.entries) > 0 {
		if e := l.entries[0]; !e.dead && (e.seq >= seq || e.taken >= at) {
			break
		}
		l.pop()
	}
	l.shrink()
}

// logSize is a snapshot of an arrivalLog's figures.
type logSize struct {
	kept, waiting, bytes int
	added, folded, lost  uint64
}

func (l *arrivalLog) size() logSize {
	l.mu.Lock()
	defer l.mu.Unlock()
	return logSize{kept: len(l.live), waiting: l.waiting, bytes: l.bytes, added: l.added, folded: l.folded, lost: l.lost}
}
