package statuspage

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// newestRuns is how many runs that may have ended are shown at first, and maxRunning how many that have not.
	newestRuns = 200
	maxRunning = 1000
	// actionsPage is how many actions are read at a time.
	actionsPage = 1000
	// readTimeout bounds one read.
	readTimeout = 10 * time.Second
)

// firstRuns reads what is there when the looking begins.
func (b *board) firstRuns(ctx context.Context) ([]*models.Run, error) {
	newestFirst, err := interfaces.NewSortParameter("created_at", common.Sort_DESCENDING)
	if err != nil {
		return nil, err
	}
	running, err := interfaces.NewFilter("phase", common.Filter_VALUE_IN, phasesNotEnded()...)
	if err != nil {
		return nil, err
	}
	var runs []*models.Run
	for _, input := range []interfaces.ListResourceInput{
		{Filter: interfaces.And(interfaces.RootActions(), running), Limit: maxRunning},
		{Filter: interfaces.RootActions(), Limit: newestRuns},
	} {
		input.SortParameters = []interfaces.SortParameter{newestFirst}
		rows, err := b.list(ctx, input)
		if err != nil {
			return nil, fmt.Errorf("read runs: %w", err)
		}
		runs = append(runs, rows[:min(len(rows), input.Limit)]...)
	}
	return runs, nil
}

func phasesNotEnded() []string {
	var phases []string
	for phase := range int32(phaseCount) {
		if phase != 0 && !ended(phase) {
			phases = append(phases, strconv.Itoa(int(phase)))
		}
	}
	return phases
}

// eachPage reads the actions of a run, oldest first, at most maxActions.
func (b *board) eachPage(ctx context.Context, run runKey, show func([]*models.Action)) error {
	input := interfaces.ListResourceInput{
		Limit:          actionsPage,
		Filter:         interfaces.RunScope(run.identifier()),
		SortParameters: interfaces.KeysetOrder(),
	}
	for read := 0; read < maxActions; read += actionsPage {
		rows, err := b.list(ctx, input)
		if err != nil {
			return fmt.Errorf("read actions: %w", err)
		}
		show(rows[:min(len(rows), actionsPage)])
		if len(rows) <= actionsPage {
			return nil
		}
		last := rows[actionsPage-1]
		input.KeysetAfterCreatedAt, input.KeysetAfterName = &last.CreatedAt, last.Name
	}
	return nil
}

func (b *board) list(ctx context.Context, input interfaces.ListResourceInput) ([]*models.Action, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("no answer within %s: %w", readTimeout, context.DeadlineExceeded))
	defer cancel()
	rows, err := b.repo.ListActions(ctx, input)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return rows, err
}
