package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNextTakesWhatHasQueuedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := subscribe(t.Context(), func(ctx context.Context, updates chan<- int, _ chan<- error) {
			for i := range 2 * queueLength {
				updates <- i
			}
			<-ctx.Done()
		})
		defer s.close()
		var all []int
		batches := 0
		for ; len(all) < 2*queueLength; batches++ {
			synctest.Wait() // the queue is full, and the watch waits
			batch, err := s.next(t.Context(), nil, nil)
			require.NoError(t, err)
			all = append(all, batch...)
		}
		require.LessOrEqual(t, batches, 3)
		for i, got := range all {
			require.Equal(t, i, got)
		}
	})
}

func TestNextEnds(t *testing.T) {
	idle := func(ctx context.Context, _ chan<- int, _ chan<- error) { <-ctx.Done() }
	fails := func(_ context.Context, _ chan<- int, errs chan<- error) { errs <- errors.New("read failed") }
	ends := func(context.Context, chan<- int, chan<- error) {}
	over := func(d time.Duration) <-chan time.Time { return time.After(d) }
	drained := make(chan struct{})
	close(drained)
	for name, test := range map[string]struct {
		watches []watch[int]
		drained chan struct{}
		over    time.Duration
		check   func(*testing.T, error)
	}{
		"with its time":          {[]watch[int]{idle}, nil, time.Minute, func(t *testing.T, err error) { require.ErrorIs(t, err, errOver) }},
		"when drained":           {[]watch[int]{idle}, drained, time.Hour, func(t *testing.T, err error) { requireCode(t, connect.CodeUnavailable, err) }},
		"with a watch's error":   {[]watch[int]{idle, fails}, nil, time.Hour, func(t *testing.T, err error) { require.ErrorContains(t, err, "read failed") }},
		"with a watch that ends": {[]watch[int]{ends, idle}, nil, time.Hour, func(t *testing.T, err error) { requireCode(t, connect.CodeUnavailable, err) }},
		"with a watch that panics": {[]watch[int]{func(context.Context, chan<- int, chan<- error) { panic("x") }}, nil, time.Hour,
			func(t *testing.T, err error) { requireCode(t, connect.CodeInternal, err) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := subscribe(t.Context(), test.watches...)
				defer s.close()
				_, err := s.next(t.Context(), test.drained, over(test.over))
				test.check(t, err)
			})
		})
	}
	t.Run("with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			s := subscribe(ctx, idle)
			defer s.close()
			_, err := s.next(ctx, nil, nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
}

// TestCloseFreesAWatchThatIsBlocked closes while a watch waits for room, and pays no heed to its context until it gets it.
func TestCloseFreesAWatchThatIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		s := subscribe(t.Context(), func(ctx context.Context, updates chan<- int, _ chan<- error) {
			for ctx.Err() == nil {
				updates <- 1
			}
			ended = true
		})
		synctest.Wait()
		s.close()
		assert.True(t, ended)
	})
}
