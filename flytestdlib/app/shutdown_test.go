package app

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

func TestDrainingEndsStreamsAndLetsRequestsFinish(t *testing.T) {
	logs := logged(t)
	a := New(testConfig())
	release := make(chan struct{}, 10)
	rpcs(a, release)
	l := beginReady(t, a)
	ctx := context.Background()

	// Two idle watches, one by HTTP/1.1 and one by gRPC.
	var watches []*connect.ServerStreamForClient[text]
	for _, c := range []*connect.Client[text, text]{
		connect.NewClient[text, text](newClient(t, false), l.url(watchProcedure)),
		connect.NewClient[text, text](newClient(t, true), l.url(watchProcedure), connect.WithGRPC()),
	} {
		watch, err := c.CallServerStream(ctx, connect.NewRequest(wrapperspb.String("")))
		require.NoError(t, err)
		require.True(t, watch.Receive())
		watches = append(watches, watch)
	}
	// Two unary calls.
	answers := make(chan error, 2)
	for _, http2 := range []bool{false, true} {
		ask := connect.NewClient[text, text](newClient(t, http2), l.url(askProcedure))
		go func() {
			_, err := ask.CallUnary(ctx, connect.NewRequest(wrapperspb.String("hello")))
			answers <- err
		}()
	}
	l.inFlight(4)

	l.stop()
	for _, watch := range watches {
		assert.False(t, watch.Receive())
		requireCode(t, connect.CodeUnavailable, watch.Err())
		require.NoError(t, watch.Close())
	}

	l.inFlight(2)
	for range 2 {
		release <- struct{}{}
	}
	for range 2 {
		require.NoError(t, <-answers, "a request in flight finishes")
	}

	require.NoError(t, l.end())
	assert.Contains(t, logs(), "shutdown: 4 requests get up to 30s to finish")
	assert.Contains(t, logs(), "shutdown: done")
}

func TestRequestsBeyondTheDrainTimeoutAreNamedAndCut(t *testing.T) {
	logs := logged(t)
	cfg := testConfig()
	cfg.DrainTimeout = 50 * time.Millisecond
	a := New(cfg)
	rpcs(a, nil)
	l := beginReady(t, a)
	errs := make(chan error, 2)
	for _, http2 := range []bool{false, true} {
		ask := connect.NewClient[text, text](newClient(t, http2), l.url(askProcedure))
		go func() {
			_, err := ask.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("hello")))
			errs <- err
		}()
	}
	l.inFlight(2)

	l.stop()
	err := l.end()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "drain requests: not done within 50ms: still running: /test.Service/Ask (2): context deadline exceeded")
	assert.Contains(t, logs(), "shutdown: drain requests: not done within 50ms")
	for range 2 {
		require.Error(t, <-errs)
	}
}

func TestTheOrderOfTheEnd(t *testing.T) {
	a := New(testConfig())
	release := make(chan struct{}, 1)
	rpcs(a, release)
	var order []string
	note := func(what string) func(context.Context) error {
		return func(context.Context) error { order = append(order, what); return nil }
	}
	l := begin(t, a, func(context.Context) error {
		a.OnClose("database", note("database"))
		a.OnClose("repository", note("repository"))
		a.Go("worker", func(ctx context.Context) error {
			<-ctx.Done()
			return note("worker")(ctx)
		})
		return nil
	})
	require.Eventually(t, a.started.Load, patience, time.Millisecond)
	asked := make(chan error, 1)
	go func() {
		ask := connect.NewClient[text, text](newClient(t, false), l.url(askProcedure))
		_, err := ask.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("hello")))
		asked <- err
	}()
	l.inFlight(1)

	l.stop()
	require.Eventually(t, func() bool { return a.draining.Err() != nil }, patience, time.Millisecond)
	require.NoError(t, a.workers.ctx.Err(), "workers go on while requests are in flight")
	release <- struct{}{}
	require.NoError(t, <-asked)

	require.NoError(t, l.end())
	assert.Equal(t, []string{"worker", "repository", "database"}, order)
}

func TestWhatDoesNotStopIsNamedAndLeftBehind(t *testing.T) {
	logs := logged(t)
	cfg := testConfig()
	cfg.StopTimeout = 30 * time.Millisecond
	cfg.CloseTimeout = 30 * time.Millisecond
	a := New(cfg)
	release := make(chan struct{})
	defer close(release)
	closed := false
	a.OnClose("first", func(context.Context) error { closed = true; return nil })
	a.OnClose("broken", func(context.Context) error { return errors.New("disk full") })
	a.OnClose("deaf", func(context.Context) error { <-release; return nil })
	a.Go("stubborn", func(context.Context) error { <-release; return nil })
	l := beginReady(t, a)

	l.stop()
	err := l.end()
	require.EqualError(t, err, `stop workers: not done within 30ms: still running: stubborn: context deadline exceeded
close deaf: not done within 30ms: context deadline exceeded
close broken: disk full`)
	assert.True(t, closed, "the rest is closed all the same")
	assert.NotContains(t, logs(), "shutdown: done")
}

func TestAFailingPartTakesTheProcessDown(t *testing.T) {
	broken := errors.New("broken")
	t.Run("setup", func(t *testing.T) {
		closed := false
		a := New(testConfig())
		err := a.Run(context.Background(), func(context.Context) error {
			a.OnClose("half", func(context.Context) error { closed = true; return nil })
			return fmt.Errorf("open the other half: %w", broken)
		}, nil)
		require.EqualError(t, err, "setup: open the other half: broken")
		assert.True(t, closed)
	})
	t.Run("worker", func(t *testing.T) {
		logs := logged(t)
		a := New(testConfig())
		fail := make(chan struct{})
		a.Go("done early", func(context.Context) error { return nil })
		a.Go("pump", func(context.Context) error { <-fail; return broken })
		l := beginReady(t, a)
		close(fail)
		err := l.end()
		require.ErrorIs(t, err, broken)
		require.EqualError(t, err, "pump: broken")
		assert.Contains(t, logs(), `level=ERROR msg="shutting down: pump: broken"`)
	})
}

func TestASetupThatIsStillWaitingIsCalledOff(t *testing.T) {
	a := New(testConfig())
	l := begin(t, a, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	l.stop()
	require.NoError(t, l.end())
	assert.False(t, a.started.Load())
}

func TestWhenReadyIsCalledClientsAreServed(t *testing.T) {
	a := New(testConfig())
	ctx, stop := context.WithCancel(context.Background())
	served := false
	err := a.Run(ctx, func(context.Context) error { return nil }, func() { served = a.started.Load(); stop() })
	require.NoError(t, err)
	assert.True(t, served)
}

func TestWhatTheLogHoldsBackIsToldAtTheEnd(t *testing.T) {
	logs := logged(t)
	a := New(testConfig())
	lines := logger.Fold{Every: time.Hour}
	a.OnClose("something that complains", func(ctx context.Context) error {
		for range 3 {
			lines.Warnf(ctx, "kind", "complaint")
		}
		return nil
	})
	l := beginReady(t, a)
	l.stop()
	require.NoError(t, l.end())
	assert.Contains(t, logs(), "and 1 more like it within 1h0m0s")
}
