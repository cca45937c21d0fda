package service

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// An action's status and its events are reported by different programs, in either order. When one of them says that the action is over,
// a watch waits this long for the other.
const (
	// statusGrace is for the status, which follows within moments.
	statusGrace = 5 * time.Second
	// eventsGrace is for the events, which executors collect before they send them; of an action that was aborted before it
	// was executed there will be none.
	eventsGrace = 30 * time.Second
)

// WatchRunDetails shows a run's details now and after every change, each state once.
func (s *runService) WatchRunDetails(
	ctx context.Context, request *connect.Request[workflow.WatchRunDetailsRequest], stream *connect.ServerStream[workflow.WatchRunDetailsResponse],
) error {
	run := request.Msg.GetRunId()
	root := &common.ActionIdentifier{Run: run, Name: rootActionName}
	// Events of the root action wake its own watchers only.
	changes := subscribe(ctx,
		func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
			s.repo.WatchRunUpdates(ctx, run, updates, errs)
		},
		func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
			s.repo.WatchActionUpdates(ctx, root, updates, errs)
		})
	defer changes.close()

	var shown *workflow.RunDetails
	for {
		details, err := s.readRunDetails(ctx, run)
		if err != nil {
			return err
		}
		if !proto.Equal(shown, details) {
			if err := stream.Send(&workflow.WatchRunDetailsResponse{Details: details}); err != nil {
				return err
			}
			shown = details
		}
		// The changes say that there is something to read; they come from two watches, so the last to arrive need not be the latest.
		if _, err := changes.next(ctx, s.drained, nil); err != nil {
			return err
		}
	}
}

// WatchActionDetails shows an action's details now and after every change, each state once, until the action is over: its last attempt
// has ended, by the events and by the status.
func (s *runService) WatchActionDetails(
	ctx context.Context, request *connect.Request[workflow.WatchActionDetailsRequest], stream *connect.ServerStream[workflow.WatchActionDetailsResponse],
) error {
	id := request.Msg.GetActionId()
	changes := subscribe(ctx, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		s.repo.WatchActionUpdates(ctx, id, updates, errs)
	})
	defer changes.close()

	var shown *workflow.ActionDetails
	var over <-chan time.Time
	for {
		details, err := s.readActionDetails(ctx, id)
		if err != nil {
			return err
		}
		if !proto.Equal(shown, details) {
			if err := stream.Send(&workflow.WatchActionDetailsResponse{Details: details}); err != nil {
				return err
			}
			shown = details
			over = overAfter(details)
		}
		// Read anew rather than taken from the change: the queue may hold states from before the first read.
		_, err = changes.next(ctx, s.drained, over)
		switch {
		case errors.Is(err, errOver):
			return nil
		case err != nil:
			return err
		}
	}
}

// overAfter returns what tells that the watch is over if the details do not change any more.
func overAfter(details *workflow.ActionDetails) <-chan time.Time {
	status, last := details.GetStatus(), lastAttempt(details)
	statusEnded := isTerminal(status.GetPhase())
	eventsEnded := last != nil && isTerminal(last.GetPhase()) && last.GetAttempt() >= status.GetAttempts()
	switch {
	case statusEnded && eventsEnded:
		return time.After(0)
	case eventsEnded:
		return time.After(statusGrace)
	case statusEnded:
		return time.After(eventsGrace)
	default:
		return nil
	}
}

func (b *backend) readRunDetails(ctx context.Context, id *common.RunIdentifier) (*workflow.RunDetails, error) {
	ctx, cancel := b.reading(ctx)
	defer cancel()
	details, err := b.runDetails(ctx, id)
	return details, causeOr(ctx, err)
}

func (b *backend) readActionDetails(ctx context.Context, id *common.ActionIdentifier) (*workflow.ActionDetails, error) {
	ctx, cancel := b.reading(ctx)
	defer cancel()
	details, err := b.actionDetails(ctx, id)
	return details, causeOr(ctx, err)
}
