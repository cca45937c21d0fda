package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// slowReads reads numbers, one after the other, each for a second.
type slowReads struct {
	*sharedReads[int]
	reads, atATime, most atomic.Int64
}

func newSlowReads(turns int) *slowReads {
	return &slowReads{sharedReads: newSharedReads[int](make(chan struct{}, turns))}
}

func (s *slowReads) get(ctx context.Context, key string) (int, error) {
	return s.sharedReads.get(ctx, key, func(ctx context.Context) (int, error) {
		s.most.Store(max(s.most.Load(), s.atATime.Add(1)))
		defer s.atATime.Add(-1)
		number := int(s.reads.Add(1))
		select {
		case <-time.After(time.Second):
			return number, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
}

func TestSharedReadsReadForAllThatWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowReads(2)
		const callers = 100
		got := make(chan int, callers)
		for range callers {
			go func() {
				number, err := s.get(t.Context(), "key")
				assert.NoError(t, err)
				got <- number
			}()
			synctest.Wait()
		}
		// Two took the turns that were free; for what came later one read is yet to begin.
		of := map[int]int{}
		for range callers {
			of[<-got]++
		}
		assert.Equal(t, map[int]int{1: 1, 2: 1, 3: callers - 2}, of)

		number, err := s.get(t.Context(), "key")
		require.NoError(t, err)
		assert.Equal(t, 4, number, "nothing is kept")
		assert.Empty(t, s.waiting)
	})
}

func TestSharedReadsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowReads(2)
		began := time.Now()
		done := make(chan struct{})
		for i := range 10 {
			go func() {
				_, err := s.get(t.Context(), fmt.Sprint(i))
				assert.NoError(t, err)
				done <- struct{}{}
			}()
		}
		for range 10 {
			<-done
		}
		assert.EqualValues(t, 10, s.reads.Load())
		assert.EqualValues(t, 2, s.most.Load())
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
}

func TestSharedReadsSurviveWhoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowReads(1)
		s.turns <- struct{}{} // so that all of them wait
		leaving, leave := context.WithCancelCause(t.Context())
		reader, follower := make(chan error, 1), make(chan error, 1)
		stays := make(chan int, 1)
		go func() { _, err := s.get(leaving, "key"); reader <- err }()
		synctest.Wait()
		go func() { _, err := s.get(leaving, "key"); follower <- err }()
		go func() {
			number, err := s.get(t.Context(), "key")
			assert.NoError(t, err)
			stays <- number
		}()
		synctest.Wait()
		gone := errors.New("gone")
		leave(gone)
		require.ErrorIs(t, <-reader, gone)
		require.ErrorIs(t, <-follower, gone)
		synctest.Wait()
		assert.Zero(t, s.reads.Load())
		<-s.turns
		assert.Equal(t, 1, <-stays)

		// The same in the middle of a read.
		leaving, leave = context.WithCancelCause(t.Context())
		go func() { _, err := s.get(leaving, "key"); reader <- err }()
		synctest.Wait()
		leave(gone)
		require.Error(t, <-reader)
		number, err := s.get(t.Context(), "key")
		require.NoError(t, err)
		assert.Equal(t, 3, number)
	})
}

func TestSharedReadsHandOnErrorsButNotPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharedReads[int](make(chan struct{}, 1))
		failing := errors.New("failing")
		s.turns <- struct{}{}
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := s.get(t.Context(), "key", func(context.Context) (int, error) { return 0, failing })
				errs <- err
			}()
		}
		synctest.Wait()
		<-s.turns
		for range 3 {
			require.ErrorIs(t, <-errs, failing)
		}

		s.turns <- struct{}{}
		panicked, got := make(chan any, 1), make(chan int, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = s.get(t.Context(), "key", func(context.Context) (int, error) { panic("boom") })
		}()
		synctest.Wait()
		go func() {
			number, err := s.get(t.Context(), "key", func(context.Context) (int, error) { return 7, nil })
			assert.NoError(t, err)
			got <- number
		}()
		synctest.Wait()
		<-s.turns
		assert.Equal(t, "boom", <-panicked)
		assert.Equal(t, 7, <-got)
	})
}

func TestInputKeyTellsInputsApart(t *testing.T) {
	at, later := testTime, testTime.Add(time.Microsecond)
	row := models.NewActionModel(actionID("r", "a0"))
	filter := func(values ...string) interfaces.Filter {
		f, err := interfaces.NewFilter("name", common.Filter_VALUE_IN, values...)
		require.NoError(t, err)
		return f
	}
	seen := map[string]int{}
	for i, input := range []interfaces.ListResourceInput{
		{},
		{Limit: 1},
		{Offset: 1},
		{KeysetAfterCreatedAt: &at},
		{KeysetAfterCreatedAt: &later},
		{KeysetAfterName: "a"},
		{SortParameters: interfaces.NewestFirst()},
		{SortParameters: interfaces.KeysetOrder()},
		{Filter: interfaces.RootActions()},
		{Filter: interfaces.OlderThan(row)},
		{Filter: filter("a", "b c")},
		{Filter: filter("a b", "c")},
		{Filter: filter(`a" "b`, "c")},
	} {
		key := inputKey(input)
		assert.NotContains(t, seen, key, "%d", i)
		seen[key] = i
	}
	sameTime := at.Add(0)
	assert.Equal(t, inputKey(interfaces.ListResourceInput{KeysetAfterCreatedAt: &at}), inputKey(interfaces.ListResourceInput{KeysetAfterCreatedAt: &sameTime}))
}
