package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// errAsked is the cause of an end that somebody wanted.
var errAsked = errors.New("asked to stop")

// Run listens, calls setup, serves until SIGTERM, SIGINT, the end of ctx or the failure of a part, and takes everything down.
//
// setup runs while the process already answers its probes; its context ends when the process is to go down, and it may take
// as long as it likes before that (wait for a database, say). After it has returned nil, clients are served, and ready is
// called, unless it is nil.
//
// The error is nil after a wanted end within all deadlines; else it joins what failed, which is all in the log as well. Run may be called
// once.
func (a *App) Run(ctx context.Context, setup func(context.Context) error, ready func()) error {
	stopSignals := a.watchSignals()
	defer stopSignals()
	stopCtx := context.AfterFunc(ctx, func() { a.endLife(errAsked) })
	defer stopCtx()

	servers, err := a.listenAll(ctx)
	if err != nil {
		a.endLife(err)
	} else {
		a.workers.start("setup", func(context.Context) error { return a.setUp(setup, ready) }, a.endLife)
	}
	<-a.life.Done()

	cause := context.Cause(a.life)
	if errors.Is(cause, errAsked) {
		cause = nil
	} else {
		logger.Errorf(ctx, "shutting down: %v", cause)
	}

	return errors.Join(cause, a.takeDown(ctx, servers))
}

func (a *App) setUp(setup func(context.Context) error, ready func()) error {
	if err := setup(a.life); err != nil {
		return err
	}
	a.started.Store(true)
	if ready != nil {
		ready()
	}
	return nil
}

// listenAll opens the ports, the clients' first.
func (a *App) listenAll(ctx context.Context) ([]*server, error) {
	public, bound, err := a.listen(ctx, "address", a.cfg.Address, a.publicHandler())
	if err != nil {
		return nil, err
	}
	a.address.Store(bound.String())
	servers := []*server{public}
	if a.sharedPort() || a.cfg.MetricsAddress == "" {
		return servers, nil
	}

	internal, _, err := a.listen(ctx, "metricsAddress", a.cfg.MetricsAddress, a.internalHandler())
	if err != nil {
		return servers, err
	}

	return append(servers, internal), nil
}

// signalNames are those that end a process here.
var signalNames = map[os.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT"}

// watchSignals ends the life at the first signal and the process at the second.
func (a *App) watchSignals() (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			select {
			case s := <-signals:
				if !first {
					logger.Errorf(context.Background(), "received %s again: ending at once", signalNames[s])
					os.Exit(128 + int(s.(syscall.Signal)))
				}
				logger.Infof(context.Background(), "received %s: shutting down; once more ends at once", signalNames[s])
				a.endLife(errAsked)
			case <-done:
				return
			}
		}
	}()

	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// takeDown goes from ready to ended. What exceeds its deadline is logged, is part of the error, and is left behind.
func (a *App) takeDown(ctx context.Context, servers []*server) error {
	// The way down has deadlines of its own; whoever ended ctx wants it gone, not cut short.
	ctx = context.WithoutCancel(ctx)
	var errs []error
	step := func(limit time.Duration, what string, do func(context.Context) error) {
		if err := within(ctx, limit, what, do); err != nil {
			logger.Errorf(ctx, "shutdown: %v", err)
			errs = append(errs, err)
		}
	}

	if n := a.requests.total(); n > 0 {
		logger.Infof(ctx, "shutdown: %d requests get up to %s to finish", n, a.cfg.DrainTimeout)
	}
	a.startDrain()
	if len(servers) > 0 {
		step(a.cfg.DrainTimeout, "drain requests", func(ctx context.Context) error { return a.drain(ctx, servers[0]) })
		a.cutRequests()
		_ = servers[0].http.Close()
	}

	a.workers.stop()
	step(a.cfg.StopTimeout, "stop workers", a.workers.running.wait)
	step(a.cfg.StopTimeout, "end requests that were cut off", a.requests.wait)

	for c, ok := a.closers.pop(); ok; c, ok = a.closers.pop() {
		step(a.cfg.CloseTimeout, "close "+c.name, c.closeIt)
	}
	for _, s := range servers {
		_ = s.http.Close()
	}
	logger.Flush()
	if len(errs) == 0 {
		logger.Infof(ctx, "shutdown: done")
	}

	return errors.Join(errs...)
}

func (a *App) drain(ctx context.Context, s *server) error {
	if err := s.http.Shutdown(ctx); err != nil {
		if named := a.requests.wait(ctx); named != nil {
			return named
		}
	}
	return nil
}

// within runs one step and waits for it no longer than the limit, even when the step ignores its context.
func within(ctx context.Context, limit time.Duration, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()

	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		// A step that heeds its context has more to say than that.
		select {
		case err = <-done:
		case <-time.After(100 * time.Millisecond):
			err = ctx.Err()
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return fmt.Errorf("%s: not done within %s: %w", what, limit, err)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	default:
		return nil
	}
}
