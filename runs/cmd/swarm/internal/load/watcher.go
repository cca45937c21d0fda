package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
)

// watcher waits for one terminal phase on one stream.
type watcher struct {
	mu       sync.Mutex
	answered time.Time // when the update that made it terminal was answered
	seen     time.Time // when the stream showed it
}

// answeredAt notes the answer: from now on the watcher is expected to see.
func (w *watcher) answeredAt(now time.Time, of *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = now
	of.expected.Add(1)
	if !w.seen.IsZero() {
		of.saw(0) // the stream was faster than the answer
	}
}

// seenAt notes the first time that the stream showed the terminal phase; false when it was not the first.
func (w *watcher) seenAt(now time.Time, of *Watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.seen.IsZero() {
		return false
	}
	w.seen = now
	if !w.answered.IsZero() {
		of.saw(now.Sub(w.answered))
	}
	return true
}

// Watch adds up the watchers of one kind of stream.
type Watch struct {
	name     string
	lag      *measure.Histogram
	streams  atomic.Int64
	expected atomic.Int64
	seen     atomic.Int64
}

func newWatch(name string) *Watch {
	return &Watch{name: name, lag: measure.NewHistogram()}
}

func (w *Watch) saw(lag time.Duration) {
	w.lag.Record(lag)
	w.seen.Add(1)
}

// behind is the number of watchers that are expected to have seen and have not.
func (w *Watch) behind() int64 { return max(w.expected.Load()-w.seen.Load(), 0) }
