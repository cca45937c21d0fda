package service

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"time"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// runView is what one watcher of a run has been shown, and what the numbers of children per phase follow from. Per action it holds some
// hundred bytes, and the action itself only where it has children. It belongs to one goroutine.
type runView struct {
	org     string
	filter  actionFilter
	read    func(ctx context.Context, name string) (*models.Action, error)
	actions map[string]*actionView
}

// actionView is one action of a runView. It may come into being before its row is seen, through a child.
type actionView struct {
	seen    bool
	state   rowState
	shown   bool
	action  *workflow.Action
	byPhase map[int32]int32
}

// rowState holds whatever of a row can change and is shown. Rows with equal states look the same to a watcher.
type rowState struct {
	phase       int32
	attempts    uint32
	cacheStatus core.CatalogCacheStatus
	created     int64
	updated     int64
	ended       int64
}

func rowStateOf(row *models.Action) rowState {
	return rowState{
		phase:       row.Phase,
		attempts:    row.Attempts,
		cacheStatus: row.CacheStatus,
		created:     row.CreatedAt.UnixMicro(),
		updated:     row.UpdatedAt.UnixMicro(),
		ended:       microsOf(row.EndedAt),
	}
}

func microsOf(at sql.NullTime) int64 {
	if !at.Valid {
		return time.Time{}.UnixMicro()
	}
	return at.Time.UnixMicro()
}

// newRunView returns an empty view. read is called for an action whose row is needed again: when its first child appears.
func newRunView(org string, filter actionFilter, read func(context.Context, string) (*models.Action, error)) *runView {
	return &runView{org: org, filter: filter, read: read, actions: map[string]*actionView{}}
}

// changes collects the names that one call of apply touches, each once, in order, with the row where there is a new one.
type changes struct {
	names []string
	rows  map[string]*models.Action
}

func (c *changes) touch(name string) {
	if _, touched := c.rows[name]; !touched {
		c.names = append(c.names, name)
		c.rows[name] = nil
	}
}

// apply takes new rows and returns what to show of it: the actions themselves, and their parents with new numbers.
func (v *runView) apply(ctx context.Context, rows []*models.Action) ([]*workflow.EnrichedAction, error) {
	changed := &changes{rows: make(map[string]*models.Action, len(rows))}
	for _, row := range rows {
		v.take(row, changed)
	}
	var show []*workflow.EnrichedAction
	// Reading a parent may add to the names.
	for i := 0; i < len(changed.names); i++ {
		if err := v.complete(ctx, changed.names[i], changed); err != nil {
			return nil, err
		}
	}
	for _, name := range changed.names {
		if action := v.enriched(name, changed.rows[name]); action != nil {
			show = append(show, action)
		}
	}
	return show, nil
}

// take notes a row and moves it to its place in the numbers of its parent.
func (v *runView) take(row *models.Action, changed *changes) {
	action := v.get(row.Name)
	state := rowStateOf(row)
	if action.seen && action.state == state {
		return
	}
	changed.touch(row.Name)
	changed.rows[row.Name] = row
	if parent := row.ParentActionName.String; parent != "" && (!action.seen || action.state.phase != state.phase) {
		if action.seen {
			v.get(parent).add(action.state.phase, -1)
		}
		v.get(parent).add(state.phase, 1)
		changed.touch(parent)
	}
	action.seen, action.state = true, state
}

// complete reads the row of an action that is to be shown again for its numbers, unless the action is at hand.
func (v *runView) complete(ctx context.Context, name string, changed *changes) error {
	action := v.actions[name]
	if changed.rows[name] != nil || !action.shown || action.action != nil {
		return nil
	}
	row, err := v.read(ctx, name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	v.take(row, changed)
	changed.rows[name] = row
	return nil
}

// enriched returns how to show an action, given its new row if there is one, or nil when there is nothing to show.
func (v *runView) enriched(name string, row *models.Action) *workflow.EnrichedAction {
	view := v.actions[name]
	wasShown, shown := view.shown, view.action
	if row != nil {
		view.shown = v.filter.meets(row)
		shown = nil
	}
	if !view.shown && (row == nil || !wasShown) {
		return nil
	}
	if shown == nil {
		if row == nil {
			return nil // the parent is gone
		}
		shown = actionOf(v.org, row)
	}
	view.action = nil
	if view.shown && len(view.byPhase) > 0 {
		view.action = shown
	}
	return &workflow.EnrichedAction{
		Action:              shown,
		MeetsFilter:         view.shown,
		ChildrenPhaseCounts: maps.Clone(view.byPhase),
	}
}

func (v *runView) get(name string) *actionView {
	view := v.actions[name]
	if view == nil {
		view = &actionView{}
		v.actions[name] = view
	}
	return view
}

// add changes the number of children in a phase; phases without any are left out.
func (a *actionView) add(phase, n int32) {
	if a.byPhase == nil {
		a.byPhase = map[int32]int32{}
	}
	a.byPhase[phase] += n
	if a.byPhase[phase] == 0 {
		delete(a.byPhase, phase)
	}
}
