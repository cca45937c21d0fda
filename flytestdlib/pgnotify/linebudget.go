package pgnotify

import (
	"fmt"
	"time"
)

// A lineBudget allows lineBurst log lines at once and one more each linePeace after that, and counts what it did not
// allow. The zero value is full. It is not safe for concurrent use.
type lineBudget struct {
	full   time.Time // when the budget is a full one again
	untold int
}

const (
	lineBurst = 20
	linePeace = 10 * time.Second
)

// spend tells whether a line may be written now, and how many were not allowed since the last one that was.
func (b *lineBudget) spend(now time.Time) (write bool, untold int) {
	if b.full.Before(now) {
		b.full = now
	}
	if b.full.Add(linePeace).Sub(now) > lineBurst*linePeace {
		b.untold++
		return false, 0
	}
	b.full = b.full.Add(linePeace)
	untold, b.untold = b.untold, 0
	return true, untold
}

// andUntold is the end of a line that stands for others.
func andUntold(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more since the last line)", n)
}
