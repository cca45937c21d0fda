package fanout

import (
	"slices"
	"sort"
)

// tracker follows the payloads that one listener hears of one notifier: numbers from 0, each to come once, in order. It keeps
// what has been left out as ranges, so that its cost depends on how often the order breaks and not on how much is missing.
type tracker struct {
	next                  int64  // one above the highest number heard
	gaps                  []span // below next, not heard; ascending
	duplicated, reordered int64
}

// span is from ≤ n < to.
type span struct{ from, to int64 }

// hear notes a number.
func (t *tracker) hear(n int64) {
	if n >= t.next {
		if n > t.next {
			t.gaps = append(t.gaps, span{t.next, n})
		}
		t.next = n + 1
		return
	}
	i := sort.Search(len(t.gaps), func(i int) bool { return t.gaps[i].to > n })
	if i == len(t.gaps) || n < t.gaps[i].from {
		t.duplicated++
		return
	}
	t.reordered++
	gap := t.gaps[i]
	var rest []span
	for _, s := range []span{{gap.from, n}, {n + 1, gap.to}} {
		if s.from < s.to {
			rest = append(rest, s)
		}
	}
	t.gaps = slices.Replace(t.gaps, i, i+1, rest...)
}

// heard counts the different numbers heard, of those below sent.
func (t *tracker) heard(sent int64) int64 {
	n := min(t.next, sent)
	for _, gap := range t.gaps {
		n -= max(min(gap.to, sent)-gap.from, 0)
	}
	return n
}

// beyond counts the different numbers heard that were never sent.
func (t *tracker) beyond(sent int64) int64 {
	return t.heard(t.next) - t.heard(sent)
}
