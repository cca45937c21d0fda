package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

const (
	queued       = common.ActionPhase_ACTION_PHASE_QUEUED
	initializing = common.ActionPhase_ACTION_PHASE_INITIALIZING
	running      = common.ActionPhase_ACTION_PHASE_RUNNING
	succeeded    = common.ActionPhase_ACTION_PHASE_SUCCEEDED
)

func runID(name string) *common.RunIdentifier {
	return &common.RunIdentifier{Org: "org", Project: "project", Domain: "domain", Name: name}
}

func actionID(run *common.RunIdentifier, number int) *common.ActionIdentifier {
	return &common.ActionIdentifier{Run: run, Name: fmt.Sprintf("a%d", number)}
}

func (c client) record(ctx context.Context, run *common.RunIdentifier, number int) error {
	request := &workflow.RecordActionRequest{
		ActionId: actionID(run, number),
		InputUri: "s3://in",
		Spec:     &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{Name: "step"}},
	}
	if number > 0 {
		request.Parent = "a0"
	}
	response, err := c.internal.RecordAction(ctx, connect.NewRequest(request))
	if err == nil && response.Msg.GetStatus().GetCode() != 0 {
		err = fmt.Errorf("record %s: %s", request.GetActionId().GetName(), response.Msg.GetStatus())
	}
	return err
}

func (c client) update(ctx context.Context, run *common.RunIdentifier, number int, phase common.ActionPhase) error {
	status := &workflow.ActionStatus{Phase: phase, Attempts: 1, StartTime: timestamppb.Now()}
	if phase == succeeded {
		status.EndTime = timestamppb.Now()
	}
	response, err := c.internal.UpdateActionStatus(ctx, connect.NewRequest(&workflow.UpdateActionStatusRequest{
		ActionId: actionID(run, number), Status: status,
	}))
	if err == nil && response.Msg.GetStatus().GetCode() != 0 {
		err = fmt.Errorf("update a%d to %s: %s", number, phase, response.Msg.GetStatus())
	}
	return err
}

func event(run *common.RunIdentifier, number int, phase common.ActionPhase) *workflow.ActionEvent {
	now := timestamppb.Now()
	e := &workflow.ActionEvent{
		Id: actionID(run, number), Attempt: 1, Phase: phase, StartTime: now, UpdatedTime: now, ReportedTime: now,
	}
	if phase == succeeded {
		e.EndTime = now
	}
	return e
}

func (c client) recordEvents(ctx context.Context, events ...*workflow.ActionEvent) error {
	response, err := c.internal.RecordActionEvents(ctx, connect.NewRequest(&workflow.RecordActionEventsRequest{Events: events}))
	if err == nil && response.Msg.GetStatus().GetCode() != 0 {
		err = fmt.Errorf("record events: %s", response.Msg.GetStatus())
	}
	return err
}

// each does something for the numbers 1 to n, sixteen at a time.
func each(t *testing.T, n int, do func(number int) error) {
	t.Helper()
	numbers := make(chan int)
	errs := make(chan error, n)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for number := range numbers {
				if err := do(number); err != nil {
					errs <- err
				}
			}
		})
	}
	for number := range n {
		numbers <- number + 1
	}
	close(numbers)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// stream is what a watch stream has shown so far.
type stream[M any] struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every message, and at the end
	messages []*M
	ended    bool
	err      error
}

// follow reads a stream in the background, until it ends; the test waits for that when it is over.
func follow[M any](t *testing.T, open func(ctx context.Context) (*connect.ServerStreamForClient[M], error)) *stream[M] {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	source, err := open(ctx)
	require.NoError(t, err)
	s := &stream[M]{changed: make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for source.Receive() {
			s.note(func() { s.messages = append(s.messages, source.Msg()) })
		}
		s.note(func() { s.ended, s.err = true, source.Err() })
		_ = source.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	return s
}

func (s *stream[M]) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// until waits until what the stream has shown is enough.
func (s *stream[M]) until(t *testing.T, what string, enough func(messages []*M) bool) {
	t.Helper()
	limit := time.After(deadline)
	for {
		s.mu.Lock()
		done, ended, err, changed := enough(s.messages), s.ended, s.err, s.changed
		s.mu.Unlock()
		if done {
			return
		}
		require.False(t, ended, "the stream ended (%v) before: %s", err, what)
		select {
		case <-changed:
		case <-limit:
			require.Fail(t, "the stream did not show: "+what)
		}
	}
}

// end waits for the stream's end and returns its error.
func (s *stream[M]) end(t *testing.T) error {
	t.Helper()
	limit := time.After(deadline)
	for {
		s.mu.Lock()
		ended, err, changed := s.ended, s.err, s.changed
		s.mu.Unlock()
		if ended {
			return err
		}
		select {
		case <-changed:
		case <-limit:
			require.Fail(t, "the stream did not end")
		}
	}
}

func (s *stream[M]) begun(t *testing.T) {
	t.Helper()
	s.until(t, "a first message", func(messages []*M) bool { return len(messages) > 0 })
}
