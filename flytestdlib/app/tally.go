package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// tally counts what is going on, by name, and lets somebody wait until nothing is. One map write for a begin and for an end;
// the zero value is ready.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	ended  chan struct{} // closed at the next end; nil while nobody waits
}

func (t *tally) begin(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[name]++
}

func (t *tally) end(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[name]--
	if t.counts[name] == 0 {
		delete(t.counts, name)
	}
	if t.ended != nil {
		close(t.ended)
		t.ended = nil
	}
}

func (t *tally) total() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, c := range t.counts {
		n += c
	}
	return n
}

// wait returns nil when nothing is going on, or an error that names what is when ctx ends.
func (t *tally) wait(ctx context.Context) error {
	for {
		names, ended := t.watch()
		if names == "" {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("still running: %s: %w", names, ctx.Err())
		}
	}
}

// watch returns what is going on, as "a, b (3)", and a channel that is closed at the next end.
func (t *tally) watch() (string, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = make(chan struct{})
	}
	names := make([]string, 0, len(t.counts))
	for name, n := range t.counts {
		if n > 1 {
			name = fmt.Sprintf("%s (%d)", name, n)
		}
		names = append(names, name)
	}
	slices.Sort(names)

	return strings.Join(names, ", "), t.ended
}
