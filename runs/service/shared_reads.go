package service

import (
	"context"
	"fmt"
	"sync"

	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

const (
	// firstLookPage is how many rows the first look of a watch reads at a time, and shows in one message. Their specs count in memory:
	// usually some kilobytes each, but a client may send more.
	firstLookPage = 500
	// firstLookReads is how many pages are read at a time for the first looks of all watches together. It bounds the memory for the rows,
	// and the connections of the pool that are kept from the other RPCs.
	firstLookReads = 4
)

// sharedReads reads for many callers, a few at a time. Callers that want the same, and wait for the same turn, get the result of one read:
// after a restart all watchers come back together, and most of them want the same pages.
//
// What it returns may have been returned to others as well: it is to be looked at, not changed. It may be used from any goroutine.
type sharedReads[T any] struct {
	turns chan struct{}

	mu      sync.Mutex
	waiting map[string]*sharedRead[T] // none of them has begun to read
}

type sharedRead[T any] struct {
	done  chan struct{} // closed when the rest is set
	value T
	err   error
	// abandoned says that there is no answer, because the caller who led the read has left.
	abandoned bool
}

func newSharedReads[T any](turns chan struct{}) *sharedReads[T] {
	return &sharedReads[T]{turns: turns, waiting: map[string]*sharedRead[T]{}}
}

// get returns what read returns, or what it returned to another caller with the same key: never a read that had begun before the call.
// It ends with ctx.
func (s *sharedReads[T]) get(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	for {
		r, mine := s.join(key)
		if mine {
			s.lead(ctx, key, r, read)
			return r.value, r.err
		}
		select {
		case <-r.done:
			if !r.abandoned {
				return r.value, r.err
			}
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
	}
}

// join returns the read with this key that is yet to begin, or a new one, which is then the caller's to lead.
func (s *sharedReads[T]) join(key string) (r *sharedRead[T], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = s.waiting[key]
	if r == nil {
		r, mine = &sharedRead[T]{done: make(chan struct{})}, true
		s.waiting[key] = r
	}
	return r, mine
}

// lead waits for its turn and reads.
func (s *sharedReads[T]) lead(ctx context.Context, key string, r *sharedRead[T], read func(context.Context) (T, error)) {
	r.abandoned = true // if read panics, too
	defer close(r.done)
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
	}
	s.mu.Lock()
	delete(s.waiting, key)
	s.mu.Unlock()

	if ctx.Err() == nil {
		r.value, r.err = read(ctx)
	}
	if r.abandoned = ctx.Err() != nil; r.abandoned && r.err == nil {
		r.err = context.Cause(ctx)
	}
}

// inputKey tells inputs apart that ask for different rows.
func inputKey(input interfaces.ListResourceInput) string {
	query, args := input.Filter.Where()
	return fmt.Sprintf("%q %#v %d %d %#v %v %q", query, args, input.Limit, input.Offset, input.SortParameters, input.KeysetAfterCreatedAt, input.KeysetAfterName)
}
