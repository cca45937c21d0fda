package statuspage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// breakable is a repository whose lists fail while it is broken.
type breakable struct {
	interfaces.ActionRepo
	broken atomic.Bool
}

func (b *breakable) ListActions(ctx context.Context, input interfaces.ListResourceInput) ([]*models.Action, error) {
	if b.broken.Load() {
		return nil, errors.New("no luck")
	}
	return b.ActionRepo.ListActions(ctx, input)
}

func runRow(name string, phase common.ActionPhase, changed int) *models.Run {
	row := action(name, "a0")
	row.Phase, row.UpdatedAt = int32(phase), time.Unix(int64(changed), 0)
	return row
}

// following is a picture that notes whom it follows.
func following() (*picture, map[string]int) {
	p, follows := newPicture(), map[string]int{}
	p.follow = func(run runKey) func() {
		follows[run.name]++
		return func() { follows[run.name]-- }
	}
	return p, follows
}

func TestRunsThatGoOnAreFollowedFirst(t *testing.T) {
	p, follows := following()
	for i := range 20 {
		p.putRun(runRow(fmt.Sprintf("ended%02d", i), succeeded, 100+i))
	}
	p.putRun(runRow("old", running, 1))
	p.choose()
	assert.Equal(t, 1, follows["old"], "although it changed first")
	assert.Equal(t, 1, follows["ended19"])
	assert.Zero(t, follows["ended01"])
	require.Len(t, p.followed, maxFollowed)

	// Runs that go on take the places of those that have ended, and then keep them.
	for i := range maxFollowed + 5 {
		p.putRun(runRow(fmt.Sprintf("new%02d", i), running, 200+i))
		p.choose()
	}
	for i := range maxFollowed - 1 {
		assert.Equal(t, 1, follows[fmt.Sprintf("new%02d", i)])
	}
	assert.Equal(t, 1, follows["old"])
	assert.Zero(t, follows["ended19"])
	require.Len(t, p.followed, maxFollowed)
}

func TestAnOlderReadDoesNotUndoANewerOne(t *testing.T) {
	p, _ := following()
	p.putRun(runRow("r", succeeded, 2))
	p.putRun(runRow("r", running, 1))
	f := p.frame(time.Now(), interfaces.NotifyStatus{})
	assert.Equal(t, 1, f.Runs[succeeded])
	assert.Zero(t, f.Runs[running])
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	p, _ := following()
	p.putRun(runRow("goes on", running, 1))
	p.putRun(runRow("ended first", succeeded, 2))
	for i := range maxRuns {
		p.putRun(runRow(fmt.Sprint(i), succeeded, 10+i))
	}
	require.Len(t, p.runs, maxRuns)
	assert.Contains(t, p.runs, runKey{"p", "d", "goes on"})
	assert.NotContains(t, p.runs, runKey{"p", "d", "ended first"})

	f := &followed{actions: map[string]int32{}, counts: make([]int, phaseCount)}
	row := action("r", "a")
	for i := range maxActions + 5 {
		row.Name = fmt.Sprint(i)
		f.put(row)
	}
	assert.True(t, f.truncated)
	assert.Equal(t, maxActions, f.counts[queued])
	row.Name, row.Phase = "7", int32(running)
	f.put(row)
	assert.Equal(t, maxActions-1, f.counts[queued], "those that are known are still followed")
	row.Phase = 99
	f.put(row)
	assert.Equal(t, 1, f.counts[running], "a phase that is not known here changes nothing")
}
