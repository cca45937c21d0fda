package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

var wholeOrg = &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_Org{Org: "org"}}

// traced is a repository with a number of pages of runs. It knows of every row that it handed out whether it is still held.
type traced struct {
	interfaces.ActionRepo
	pages int
	read  int
	rows  []weak.Pointer[models.Action]
	specs []weak.Pointer[byte]
}

func (r *traced) ListActions(_ context.Context, input interfaces.ListResourceInput) ([]*models.Action, error) {
	r.read++
	size := input.Limit
	if r.read < r.pages {
		size++
	}
	page := make([]*models.Action, size)
	for i := range page {
		page[i] = models.NewActionModel(actionID(fmt.Sprint(r.read, "-", i), "a0"))
		page[i].ActionSpec = make([]byte, 4096)
		r.rows = append(r.rows, weak.Make(page[i]))
		r.specs = append(r.specs, weak.Make(&page[i].ActionSpec[0]))
	}
	return page, nil
}

func held[T any](pointers []weak.Pointer[T]) (n int) {
	for _, p := range pointers {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

// TestWatchRunsHoldsNoRowsWhileItSends is what makes the memory of a watch that has just begun independent of how many runs there are, and of
// how large they are.
func TestWatchRunsHoldsNoRowsWhileItSends(t *testing.T) {
	repo := &traced{pages: 20}
	service := &runService{newServer(t, repo).backend}
	scope, err := watchScopeOf(wholeOrg)
	require.NoError(t, err)
	sent := 0
	require.NoError(t, service.eachRunsPage(t.Context(), scope, func(message *workflow.WatchRunsResponse) error {
		sent++
		require.Len(t, message.GetRuns(), firstLookPage)
		require.Equal(t, sent, repo.read, "a page is read when the one before has been taken")
		runtime.GC()
		require.Zero(t, held(repo.rows))
		require.Zero(t, held(repo.specs))
		return nil
	}))
	assert.Equal(t, repo.pages, sent)
}

// meddling is a repository in which something happens after each page is read and before it is handed over.
type meddling struct {
	interfaces.ActionRepo
	pages  atomic.Int64
	meddle func(page int)
}

func (m *meddling) ListActions(ctx context.Context, input interfaces.ListResourceInput) ([]*models.Action, error) {
	rows, err := m.ActionRepo.ListActions(ctx, input)
	m.meddle(int(m.pages.Add(1)))
	return rows, err
}

// TestWatchRunsMissesNothingThatChangesWhileItBegins changes runs on both sides of where the first look has come to.
func TestWatchRunsMissesNothingThatChangesWhileItBegins(t *testing.T) {
	repo, quiet := newRepos(t)
	const runs = newestRuns + 2*firstLookPage + 100
	name := func(i int) string { return fmt.Sprintf("r%04d", i) }
	root := func(i int) *common.ActionIdentifier { return actionID(name(i), "a0") }
	created := func(i int) time.Time { return testTime.Add(time.Duration(i/10) * time.Second) } // ten to a moment
	for i := range runs {
		create(t, quiet, root(i), func(row *models.Action) { row.Phase, row.CreatedAt = int32(running), created(i) })
	}
	newest, oldest := runs-1, 0
	moved, back := newest-1, testTime.Add(-time.Hour)
	pages := newestRuns/firstLookPage + 3
	expected := map[string]common.ActionPhase{"probe": queued, "new": queued, name(newest): failed, name(oldest): succeeded, name(oldest + 1): aborted}
	for i := range runs {
		if _, changes := expected[name(i)]; !changes {
			expected[name(i)] = running
		}
	}

	meddled := &meddling{ActionRepo: repo, meddle: func(page int) {
		switch page {
		case 1: // The newest have been read, the oldest not.
			setPhase(t, repo, root(newest), failed)
			setPhase(t, repo, root(oldest), succeeded)
			create(t, repo, actionID("new", "a0"))
			require.NoError(t, repo.UpdateActionPhase(t.Context(), root(moved), running, 2, 0, nil, &back))
		case pages: // All have been.
			require.NoError(t, repo.AbortRun(t.Context(), runID(name(oldest+1)), "", nil))
		}
	}}
	w := open(t, newServer(t, meddled).runs().WatchRuns, wholeOrg)
	last := map[string]common.ActionPhase{}
	var firstLook []string
	for messages := 1; messages <= pages || !maps.Equal(last, expected); messages++ {
		for _, run := range w.next().GetRuns() {
			name := run.GetAction().GetId().GetRun().GetName()
			last[name] = run.GetAction().GetStatus().GetPhase()
			if messages <= pages {
				firstLook = append(firstLook, name)
			}
		}
	}
	assert.EqualValues(t, pages, meddled.pages.Load())

	// Newest first, each once, of those that did not change.
	changed := []string{"probe", "new", name(newest), name(oldest), name(oldest + 1), name(moved)}
	firstLook = slices.DeleteFunc(firstLook, func(name string) bool { return slices.Contains(changed, name) })
	var want []string
	for i := moved - 1; i > oldest+1; i-- {
		want = append(want, name(i))
	}
	assert.Equal(t, want, firstLook)
}

// endless is a repository that takes a second for a page and has always another one.
type endless struct {
	interfaces.ActionRepo
	read atomic.Int64
}

func (r *endless) ListActions(_ context.Context, input interfaces.ListResourceInput) ([]*models.Action, error) {
	r.read.Add(1)
	time.Sleep(time.Second)
	return slices.Repeat([]*models.Action{models.NewActionModel(actionID("run", "a0"))}, input.Limit+1), nil
}

// TestWatchersThatComeTogetherReadTogether is the moment after a restart.
func TestWatchersThatComeTogetherReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watchers, pages = 100, newestRuns/firstLookPage + 3
		repo := &endless{}
		all, err := New(DefaultConfig(), repo, noop.NewMeterProvider())
		require.NoError(t, err)
		service := &runService{all.backend}
		scope, err := watchScopeOf(wholeOrg)
		require.NoError(t, err)
		satisfied := errors.New("satisfied")
		ends := make(chan error)
		for range watchers {
			go func() {
				sent := 0
				ends <- service.eachRunsPage(t.Context(), scope, func(*workflow.WatchRunsResponse) error {
					if sent++; sent == pages {
						return satisfied
					}
					return nil
				})
			}()
		}
		for range watchers {
			require.ErrorIs(t, <-ends, satisfied)
		}
		assert.Less(t, repo.read.Load(), int64(watchers*pages/5))
	})
}
