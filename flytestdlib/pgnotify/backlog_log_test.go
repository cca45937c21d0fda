package pgnotify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clockedLog is an arrivalLog whose clock goes on by one nanosecond with every call.
type clockedLog struct {
	*arrivalLog
	time time.Duration
}

func newClockedLog(maxPayloads, maxBytes int) *clockedLog {
	return &clockedLog{arrivalLog: newArrivalLog(maxPayloads, maxBytes)}
}

func (l *clockedLog) now() time.Duration { l.time++; return l.time }

func (l *clockedLog) arrive(payloads ...string) (lost bool) {
	for _, payload := range payloads {
		_, dropped := l.add(payload, l.now)
		lost = lost || dropped
	}
	return lost
}

func (l *clockedLog) takeAll() (payloads []string) {
	for {
		a, there := l.take(l.now)
		if !there {
			return payloads
		}
		payloads = append(payloads, a.payload)
	}
}

// readAll is what somebody at seq is still to get.
func (l *clockedLog) readAll(t *testing.T, seq uint64) (payloads []string) {
	t.Helper()
	read, more, gap := l.read(seq, 1<<60, len(l.entries)+1, nil)
	require.False(t, more)
	require.False(t, gap)
	for _, a := range read {
		payloads = append(payloads, a.payload)
	}
	return payloads
}

func TestLogHandsOnInOrderOfArrivalEachPayloadOnce(t *testing.T) {
	l := newClockedLog(100, 1<<20)
	l.arrive("a", "b", "a", "c", "b")
	assert.Equal(t, []string{"a", "b", "c"}, l.takeAll())
	assert.Empty(t, l.takeAll())
	size := l.size()
	assert.EqualValues(t, 5, size.added)
	assert.EqualValues(t, 2, size.folded)
}

func TestLogMovesWhatArrivesAgainAfterItWasHandedOn(t *testing.T) {
	l := newClockedLog(100, 1<<20)
	l.arrive("a", "b", "c")
	l.takeAll()
	l.arrive("a", "d")

	// Not handed on again yet: somebody who is behind by everything does not get it before the others.
	assert.Equal(t, []string{"b", "c"}, l.readAll(t, 1))
	assert.Equal(t, []string{"a", "d"}, l.takeAll())
	assert.Equal(t, []string{"b", "c", "a", "d"}, l.readAll(t, 1))
	assert.Equal(t, []string{"a", "d"}, l.readAll(t, 4))
}

func TestLogReadsPiecewise(t *testing.T) {
	l := newClockedLog(100, 1<<20)
	l.arrive("a", "b", "c")
	l.takeAll()
	read, more, gap := l.read(1, 1<<60, 2, nil)
	assert.Len(t, read, 2)
	assert.True(t, more)
	assert.False(t, gap)
	read, more, _ = l.read(read[1].seq+1, 1<<60, 2, nil)
	assert.Len(t, read, 1)
	assert.False(t, more, "the last one was read, nothing is left")
	read, more, _ = l.read(1, 3, 10, nil)
	assert.Len(t, read, 2)
	assert.False(t, more, "nothing before the end is left")
}

func TestLogForgetsWhatNobodyNeeds(t *testing.T) {
	l := newClockedLog(100, 1<<20)
	l.arrive("a", "b", "c")
	l.take(l.now)
	l.take(l.now)
	long := time.Hour
	l.trim(2, long)
	assert.Equal(t, 2, l.size().kept, "b is needed by somebody at 2")
	l.trim(100, 0)
	assert.Equal(t, 2, l.size().kept, "b may be wanted by somebody new")
	l.trim(100, long)
	assert.Equal(t, 1, l.size().kept, "c has not been handed on")
	assert.Equal(t, []string{"c"}, l.takeAll())
	l.trim(100, long)
	assert.Equal(t, logSize{added: 3}, l.size())
}

func TestLogDropsTheOldestAtItsLimitsAndTells(t *testing.T) {
	for name, l := range map[string]*clockedLog{
		"payloads": newClockedLog(3, 1<<20),
		"bytes":    newClockedLog(100, 3*(1+entryBytes)),
	} {
		t.Run(name, func(t *testing.T) {
			assert.False(t, l.arrive("a", "b", "c"))
			l.take(l.now)
			assert.False(t, l.arrive("d"), "a was handed on")
			_, _, gap := l.read(1, 1<<60, 10, nil)
			assert.True(t, gap, "somebody at a has missed it")
			_, _, gap = l.read(2, 1<<60, 10, nil)
			assert.False(t, gap)
			end, _ := l.gap()
			assert.EqualValues(t, 2, end)

			assert.True(t, l.arrive("e"), "b was not")
			assert.EqualValues(t, 1, l.size().lost)
			assert.Equal(t, []string{"c", "d", "e"}, l.takeAll())
		})
	}
	l := newClockedLog(3, 10)
	l.arrive("longer than the limit by itself")
	assert.Equal(t, 1, l.size().kept, "the youngest stays in any case")
}

func TestLogKnowsWhatSomebodyNewMayHaveMissed(t *testing.T) {
	l := newClockedLog(3, 1<<20)
	l.arrive("a", "b") // 1, 2
	l.takeAll()        // 3, 4 (and 5, for nothing)
	before := l.time
	l.arrive("c")
	seq, gap := l.since(before + 1)
	assert.EqualValues(t, 3, seq)
	assert.False(t, gap)
	seq, _ = l.since(4)
	assert.EqualValues(t, 2, seq, "b arrived earlier, but was handed on then: it may have arrived again meanwhile")
	seq, _ = l.since(before + 100)
	assert.EqualValues(t, 3, seq, "what waits is always included")

	l.arrive("d") // drops a
	_, gap = l.since(3)
	assert.True(t, gap)
	_, gap = l.since(4)
	assert.False(t, gap)
}

func TestLogGivesMemoryBack(t *testing.T) {
	l := newClockedLog(1<<20, 1<<30)
	const n = 10_000
	for i := range n {
		l.arrive(fmt.Sprint(i))
	}
	l.takeAll()
	for range 20 {
		for i := range n { // all dead but the last round
			l.arrive(fmt.Sprint(i))
		}
		l.takeAll()
		require.LessOrEqual(t, len(l.entries), 2*n+1)
	}
	assert.Equal(t, n, l.size().kept)
	l.trim(1<<60, time.Hour)
	assert.Zero(t, l.size().kept)
	assert.Zero(t, l.size().bytes)
	assert.Zero(t, l.peak, "a map as large as it once was stays")
}

// Whatever happens, the figures fit what is there.
func TestLogFigures(t *testing.T) {
	l := newClockedLog(7, 1<<20)
	for i := range 1000 {
		l.arrive(strings.Repeat("x", i*i%11))
		if i%3 == 0 {
			l.take(l.now)
		}
		if i%10 == 0 {
			l.trim(l.handed-min(l.handed, 2), l.time)
		}
		live, dead, waiting, bytes := 0, 0, 0, 0
		for k, e := range l.entries {
			require.True(t, k == 0 || e.seq > l.entries[k-1].seq)
			if e.dead {
				dead++
				continue
			}
			live++
			bytes += len(e.payload) + entryBytes
			require.Equal(t, e.seq, l.live[e.payload])
			if e.seq >= l.handed {
				waiting++
			}
		}
		require.Equal(t, []int{live, dead, waiting, bytes}, []int{len(l.live), l.dead, l.waiting, l.bytes})
	}
}
