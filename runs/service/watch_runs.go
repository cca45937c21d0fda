package service

import (
	"context"
	"slices"
	"strconv"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// newestRuns is how many runs a watch shows at first, whatever their phase, besides all that have not ended.
const newestRuns = 1000

// WatchRuns shows the runs that have not ended and the newest ones, then every run that changes or is new. The first message comes at
// once, if need be without a run in it.
func (s *runService) WatchRuns(
	ctx context.Context, request *connect.Request[workflow.WatchRunsRequest], stream *connect.ServerStream[workflow.WatchRunsResponse],
) error {
	scope, err := watchScopeOf(request.Msg)
	if err != nil {
		return err
	}
	changes := subscribe(ctx, s.repo.WatchAllRunUpdates)
	defer changes.close()

	rows, err := s.firstRuns(ctx, scope)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if err := stream.Send(runsMessage(scope, nil)); err != nil {
			return err
		}
	}
	for page := range slices.Chunk(rows, maxBatch) {
		if s.isDrained() {
			return errDraining()
		}
		if err := stream.Send(runsMessage(scope, page)); err != nil {
			return err
		}
	}
	for {
		batch, err := changes.next(ctx, s.drained, nil)
		if err != nil {
			return err
		}
		batch = latestOfEachRun(slices.DeleteFunc(batch, func(run *models.Run) bool { return !scope.matches(run) }))
		if len(batch) == 0 {
			continue
		}
		if err := stream.Send(runsMessage(scope, batch)); err != nil {
			return err
		}
	}
}

// firstRuns reads what a watch shows first, newest first.
func (s *runService) firstRuns(ctx context.Context, scope runScope) ([]*models.Run, error) {
	ctx, cancel := s.reading(ctx)
	defer cancel()
	newestFirst, err := interfaces.NewSortParameter("created_at", common.Sort_DESCENDING)
	if err != nil {
		return nil, err
	}
	notEnded, err := interfaces.NewFilter("phase", common.Filter_VALUE_IN, phasesNotEnded()...)
	if err != nil {
		return nil, err
	}
	inScope := interfaces.And(interfaces.RootActions(), scope.filter)
	var runs []*models.Run
	for _, input := range []interfaces.ListResourceInput{
		{Filter: interfaces.And(inScope, notEnded), Limit: interfaces.MaxListLimit},
		{Filter: inScope, Limit: newestRuns},
	} {
		input.SortParameters = []interfaces.SortParameter{newestFirst}
		rows, err := s.repo.ListActions(ctx, input)
		if err != nil {
			return nil, causeOr(ctx, err)
		}
		runs = append(runs, rows[:min(len(rows), input.Limit)]...)
	}
	// The second list was read later, so where both have a run it is the one to keep, as latestOfEachRun does.
	runs = latestOfEachRun(runs)
	slices.SortStableFunc(runs, func(a, b *models.Run) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return runs, nil
}

func phasesNotEnded() []string {
	var phases []string
	for number := range common.ActionPhase_name {
		if number != 0 && !isTerminal(common.ActionPhase(number)) {
			phases = append(phases, strconv.Itoa(int(number)))
		}
	}
	return phases
}

// latestOfEachRun keeps, of several rows of one run, the last, and otherwise the order.
func latestOfEachRun(rows []*models.Run) []*models.Run {
	type key struct{ project, domain, run string }
	last := make(map[key]*models.Run, len(rows))
	for _, row := range rows {
		last[key{row.Project, row.Domain, row.RunName}] = row
	}
	return slices.DeleteFunc(rows, func(row *models.Run) bool {
		return last[key{row.Project, row.Domain, row.RunName}] != row
	})
}

func runsMessage(scope runScope, rows []*models.Run) *workflow.WatchRunsResponse {
	message := &workflow.WatchRunsResponse{Runs: make([]*workflow.Run, len(rows))}
	for i, row := range rows {
		message.Runs[i] = runOf(scope.org, row)
	}
	return message
}
