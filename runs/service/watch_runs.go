package service

import (
	"context"
	"maps"
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

	// A run that ends while the pages are read may be in none of them; it is in changes then. As for which of two states is the newer one,
	// see WatchActions.
	if err := s.eachRunsPage(ctx, scope, stream.Send); err != nil {
		return err
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
		if err := stream.Send(runsMessage(scope.org, batch)); err != nil {
			return err
		}
	}
}

// runsPage is a part of what a watch shows first.
type runsPage struct {
	message *workflow.WatchRunsResponse
	// next lets through the runs of the next page; nil on the last one.
	next *interfaces.Filter
}

// eachRunsPage reads what a watch shows first, newest first, and sends each page, of which there is at least one: the newest runs, and then
// those before them that have not ended. While a client takes a page, nothing is held of the rows.
func (s *runService) eachRunsPage(ctx context.Context, scope runScope, send func(*workflow.WatchRunsResponse) error) error {
	notEnded, err := interfaces.NewFilter("phase", common.Filter_VALUE_IN, phasesNotEnded()...)
	if err != nil {
		return err
	}
	inScope := interfaces.And(interfaces.RootActions(), scope.filter)
	input := interfaces.ListResourceInput{Limit: firstLookPage, Filter: inScope, SortParameters: interfaces.NewestFirst()}
	for shown := 0; ; {
		page, err := s.readRuns(ctx, scope.org, input)
		if err != nil {
			return err
		}
		if shown == 0 || len(page.message.GetRuns()) > 0 {
			if err := send(page.message); err != nil {
				return err
			}
		}
		if page.next == nil {
			return nil
		}
		input.Filter = interfaces.And(inScope, *page.next)
		if shown += firstLookPage; shown >= newestRuns {
			input.Filter = interfaces.And(input.Filter, notEnded)
		}
	}
}

func (s *runService) readRuns(ctx context.Context, org string, input interfaces.ListResourceInput) (runsPage, error) {
	ctx, cancel := s.reading(ctx)
	defer cancel()
	page, err := s.runsReads.get(ctx, org+"/"+inputKey(input), func(ctx context.Context) (page runsPage, err error) {
		rows, err := s.repo.ListActions(ctx, input)
		if err != nil {
			return page, err
		}
		if len(rows) > input.Limit {
			rows = rows[:input.Limit]
			next := interfaces.OlderThan(rows[len(rows)-1])
			page.next = &next
		}
		page.message = runsMessage(org, rows)
		return page, nil
	})
	return page, causeOr(ctx, err)
}

// phasesNotEnded returns always the same order, for reads to be shared.
func phasesNotEnded() []string {
	var phases []string
	for _, number := range slices.Sorted(maps.Keys(common.ActionPhase_name)) {
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

func runsMessage(org string, rows []*models.Run) *workflow.WatchRunsResponse {
	message := &workflow.WatchRunsResponse{Runs: make([]*workflow.Run, len(rows))}
	for i, row := range rows {
		message.Runs[i] = runOf(org, row)
	}
	return message
}
