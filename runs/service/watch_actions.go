package service

import (
	"context"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// WatchActions shows all actions of a run that meet the filter, then each that changes, and each whose children change phase. An action
// that was shown and meets the filter no longer is shown once more, with meets_filter false. The first message comes at once,
// if need be without an action in it; a run that does not exist yet can be watched.
func (s *runService) WatchActions(
	ctx context.Context, request *connect.Request[workflow.WatchActionsRequest], stream *connect.ServerStream[workflow.WatchActionsResponse],
) error {
	filter, err := newActionFilter(request.Msg.GetFilter())
	if err != nil {
		return err
	}
	run := request.Msg.GetRunId()
	changes := subscribe(ctx, func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		s.repo.WatchAllActionUpdates(ctx, run, updates, errs)
	})
	defer changes.close()

	view := newRunView(run.GetOrg(), filter, func(ctx context.Context, name string) (*models.Action, error) {
		return s.repo.GetAction(ctx, &common.ActionIdentifier{Run: run, Name: name})
	})
	show := func(rows []*models.Action, evenIfNone bool) error {
		actions, err := s.apply(ctx, view, rows)
		if err != nil || (len(actions) == 0 && !evenIfNone) {
			return err
		}
		return stream.Send(&workflow.WatchActionsResponse{EnrichedActions: actions})
	}

	// A change that is read into the queue while the pages are read may be older than what its page has. It is shown all the same:
	// which of the two is newer cannot be told for certain, and the newer state, being a change itself, comes after it.
	if err := s.eachPage(ctx, run, show); err != nil {
		return err
	}
	for {
		batch, err := changes.next(ctx, s.drained, nil)
		if err != nil {
			return err
		}
		if err := show(batch, false); err != nil {
			return err
		}
	}
}

// eachPage reads the actions of a run, oldest first, and calls show for each page, of which there is at least one.
func (s *runService) eachPage(ctx context.Context, run *common.RunIdentifier, show func(rows []*models.Action, evenIfNone bool) error) error {
	input := interfaces.ListResourceInput{
		Limit:          firstLookPage,
		Filter:         interfaces.RunScope(run),
		SortParameters: interfaces.KeysetOrder(),
	}
	for first := true; ; first = false {
		rows, err := s.readPage(ctx, input)
		if err != nil {
			return err
		}
		more := len(rows) > firstLookPage
		if more {
			rows = rows[:firstLookPage]
			last := rows[len(rows)-1]
			at := last.CreatedAt // not where it is, or the whole row would be held
			input.KeysetAfterCreatedAt, input.KeysetAfterName = &at, last.Name
		}
		if err := show(rows, first); err != nil || !more {
			return err
		}
	}
}

func (s *runService) readPage(ctx context.Context, input interfaces.ListResourceInput) ([]*models.Action, error) {
	ctx, cancel := s.reading(ctx)
	defer cancel()
	rows, err := s.actionsReads.get(ctx, inputKey(input), func(ctx context.Context) ([]*models.Action, error) {
		return s.repo.ListActions(ctx, input)
	})
	return rows, causeOr(ctx, err)
}

func (s *runService) apply(ctx context.Context, view *runView, rows []*models.Action) ([]*workflow.EnrichedAction, error) {
	ctx, cancel := s.reading(ctx)
	defer cancel()
	actions, err := view.apply(ctx, rows)
	return actions, causeOr(ctx, err)
}
