package pgnotify

import (
	"math"
	"slices"
	"sync"
	"time"
)

// retellings remembers what catch-ups let arrive. A change that was announced is not much older than the arrival of its payload; one that a
// catch-up found may be as old as the catch-up reached back. So whoever missed what arrived from some moment on must ask for
// changes from as far back as the catch-ups reached that were under way at or after that moment.
type retellings struct {
	mu  sync.Mutex
	all []*retelling // by their beginning
}

type retelling struct{ since, until time.Duration }

// maxRetellings bounds the memory; the oldest are then taken for one, which can only make somebody ask for more than needed.
const maxRetellings = 64

// retelling says that a catch-up begins which reaches back to since, by our clock. The caller calls end after its last arrival.
func (b *Backlog) retelling(since time.Time) (end func()) {
	r := &b.retold
	told := &retelling{since: since.Sub(b.started), until: math.MaxInt64}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxRetellings {
		oldest, next := r.all[0], r.all[1]
		next.since, next.until = min(oldest.since, next.since), max(oldest.until, next.until)
		r.all = slices.Delete(r.all, 0, 1)
	}
	r.all = append(r.all, told)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		told.until = b.now()
	}
}

// reach returns how old a change can be whose payload arrived at the given moment or later.
func (r *retellings) reach(arrived time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	reach := arrived
	for _, told := range r.all {
		if told.until >= arrived {
			reach = min(reach, told.since)
		}
	}
	return reach
}
