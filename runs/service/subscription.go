package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"connectrpc.com/connect"
)

const (
	// queueLength is how many changes wait in this process while a client takes the one before. What comes after them waits with
	// the repository.
	queueLength = 100
	// maxBatch bounds how many changes are shown in one message.
	maxBatch = 1000
)

// errOver is how next says that its time is over.
var errOver = errors.New("time is over")

// watch is one of the repository's Watch methods, with the identifier filled in.
type watch[T any] func(ctx context.Context, updates chan<- T, errs chan<- error)

// subscription is one or more watches that send into one queue. It belongs to one goroutine, which closes it.
type subscription[T any] struct {
	updates chan T
	errs    chan error
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// subscribe starts the watches; they end with ctx or with close.
func subscribe[T any](ctx context.Context, watches ...watch[T]) *subscription[T] {
	ctx, cancel := context.WithCancel(ctx)
	s := &subscription[T]{
		updates: make(chan T, queueLength),
		// Room for what every watch can have to say, so that none waits for somebody to listen.
		errs:   make(chan error, 2*len(watches)),
		cancel: cancel,
	}
	for _, w := range watches {
		s.running.Go(func() { s.run(ctx, w) })
	}
	return s
}

// run turns a panic, which would end the process here, and an end that nobody asked for into errors.
func (s *subscription[T]) run(ctx context.Context, w watch[T]) {
	defer func() {
		if value := recover(); value != nil {
			failureLines.Errorf(ctx, "panic in a watch", "panic in a watch: %v\n%s", value, debug.Stack())
			s.errs <- connect.NewError(connect.CodeInternal, errors.New("internal error"))
		}
	}()
	w(ctx, s.updates, s.errs)
	if ctx.Err() == nil {
		s.errs <- connect.NewError(connect.CodeUnavailable, errors.New("the watch was ended by the service"))
	}
}

// next waits for a change and returns it with what else has queued up. It ends with ctx, with drained (unavailable), with over (errOver)
// or with the error of a watch.
func (s *subscription[T]) next(ctx context.Context, drained <-chan struct{}, over <-chan time.Time) ([]T, error) {
	var batch []T
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-drained:
		return nil, errDraining()
	case <-over:
		return nil, errOver
	case err := <-s.errs:
		return nil, fmt.Errorf("watch: %w", err)
	case update := <-s.updates:
		batch = append(batch, update)
	}
	for len(batch) < maxBatch {
		select {
		case update := <-s.updates:
			batch = append(batch, update)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// close ends the watches and returns when nothing of them is left.
func (s *subscription[T]) close() {
	s.cancel()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	for {
		select {
		case <-s.updates:
		case <-s.errs:
		case <-ended:
			return
		}
	}
}
