package fanout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func hears(numbers ...int64) *tracker {
	t := &tracker{}
	for _, n := range numbers {
		t.hear(n)
	}
	return t
}

func TestTracker(t *testing.T) {
	for name, c := range map[string]struct {
		heard                                  []int64
		sent                                   int64
		lost, duplicated, reordered, unknownOf int64
	}{
		"nothing":          {nil, 0, 0, 0, 0, 0},
		"nothing heard":    {nil, 3, 3, 0, 0, 0},
		"all in order":     {[]int64{0, 1, 2}, 3, 0, 0, 0, 0},
		"lost at the end":  {[]int64{0, 1}, 3, 1, 0, 0, 0},
		"lost at first":    {[]int64{2}, 3, 2, 0, 0, 0},
		"lost between":     {[]int64{0, 3, 6}, 7, 4, 0, 0, 0},
		"late":             {[]int64{0, 2, 1}, 3, 0, 0, 1, 0},
		"late in a range":  {[]int64{0, 5, 3, 1}, 6, 2, 0, 2, 0},
		"twice at once":    {[]int64{0, 0, 1}, 2, 0, 1, 0, 0},
		"twice later":      {[]int64{0, 1, 2, 0}, 3, 0, 1, 0, 0},
		"late and twice":   {[]int64{0, 2, 1, 1}, 3, 0, 1, 1, 0},
		"never sent":       {[]int64{0, 1, 2}, 2, 0, 0, 0, 1},
		"far beyond":       {[]int64{0, 1 << 40}, 2, 1, 0, 0, 1},
		"backwards":        {[]int64{2, 1, 0}, 3, 0, 0, 2, 0},
		"twice and a loss": {[]int64{0, 0, 2}, 3, 1, 1, 0, 0},
	} {
		tr := hears(c.heard...)
		assert.Equal(t, c.lost, c.sent-tr.heard(c.sent), "lost: %s", name)
		assert.Equal(t, c.duplicated, tr.duplicated, "duplicated: %s", name)
		assert.Equal(t, c.reordered, tr.reordered, "reordered: %s", name)
		assert.Equal(t, c.unknownOf, tr.beyond(c.sent), "never sent: %s", name)
	}
}

// Against the plain way of counting: a set.
func TestTrackerCountsLikeASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heard := rapid.SliceOf(rapid.Int64Range(0, 30)).Draw(t, "heard")
		sent := rapid.Int64Range(0, 40).Draw(t, "sent")
		tr := hears(heard...)
		seen, highest := map[int64]bool{}, int64(-1)
		var duplicated, reordered, within, beyond int64
		for _, n := range heard {
			switch {
			case seen[n]:
				duplicated++
			case n < highest:
				reordered++
			}
			if !seen[n] && n < sent {
				within++
			} else if !seen[n] {
				beyond++
			}
			seen[n], highest = true, max(highest, n)
		}
		assert.Equal(t, []int64{within, beyond, duplicated, reordered},
			[]int64{tr.heard(sent), tr.beyond(sent), tr.duplicated, tr.reordered})
	})
}
