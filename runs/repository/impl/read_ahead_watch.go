package impl

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// readingAhead is an actionRepo whose watches read in common, and ahead. The watches do not know of it: they call GetRun and GetAction as
// ever, with a context by which these find what reads for that watcher. Nobody else is served from there.
//
//	watcher ── GetAction ──▶ readAhead, one per watcher ── what is not ready ──▶ jointReader ── a statement or two at a time ──▶ database
//	                             ▲
//	   Backlog, on arrival ── watchersAhead
type readingAhead struct{ *actionRepo }

// WatchRunUpdates implements interfaces.ActionRepo.
func (r *readingAhead) WatchRunUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Run, errs chan<- error) {
	r.actionRepo.WatchRunUpdates(r.reading(ctx, runUpdatesChannel, r.newReadAhead(runUpdatesChannel)), runID, updates, errs)
}

// WatchAllRunUpdates implements interfaces.ActionRepo.
func (r *readingAhead) WatchAllRunUpdates(ctx context.Context, updates chan<- *models.Run, errs chan<- error) {
	ctx, leave := r.watching(ctx, aheadGroup{channel: runUpdatesChannel})
	defer leave()
	r.actionRepo.WatchAllRunUpdates(ctx, updates, errs)
}

// WatchAllActionUpdates implements interfaces.ActionRepo.
func (r *readingAhead) WatchAllActionUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Action, errs chan<- error) {
	ctx, leave := r.watching(ctx, aheadGroup{actionUpdatesChannel, runKey(runID)})
	defer leave()
	r.actionRepo.WatchAllActionUpdates(ctx, runID, updates, errs)
}

// WatchActionUpdates implements interfaces.ActionRepo.
func (r *readingAhead) WatchActionUpdates(ctx context.Context, actionID *common.ActionIdentifier, updates chan<- *models.Action, errs chan<- error) {
	r.actionRepo.WatchActionUpdates(r.reading(ctx, actionUpdatesChannel, r.newReadAhead(actionUpdatesChannel)), actionID, updates, errs)
}

// watching lets a watcher read ahead what the group's payloads name, until leave.
func (r *readingAhead) watching(ctx context.Context, group aheadGroup) (_ context.Context, leave func()) {
	ahead := r.newReadAhead(group.channel)
	ahead.recent = func(note func(payload string)) {
		r.backlog.EachKept(group.channel, func(payload string) {
			if groupOf(group.channel, payload) == group {
				note(payload)
			}
		})
	}
	r.ahead.add(group, ahead)
	return r.reading(ctx, group.channel, ahead), func() { r.ahead.remove(group, ahead) }
}

// newReadAhead returns one that hears of nothing, and so reads in common but not ahead.
func (r *readingAhead) newReadAhead(channel string) *readAhead {
	return &readAhead{
		fetch: func(ctx context.Context, payloads []string) (map[string]*models.Action, error) {
			return r.readNamed(ctx, channel, payloads)
		},
		now:   time.Now,
		heard: map[string]bool{}, reading: map[string]bool{}, ready: map[string]readyRow{},
	}
}

// readNamed reads in common what payloads of a channel name. Of runs it finds those only whose root action has the name that it should have.
func (r *readingAhead) readNamed(ctx context.Context, channel string, payloads []string) (map[string]*models.Action, error) {
	keys := make([]rowKey, 0, len(payloads))
	named := make(map[rowKey]string, len(payloads))
	for _, payload := range payloads {
		if key, names := rowNamed(channel, payload); names {
			keys = append(keys, key)
			named[key] = payload
		}
	}
	found, err := r.joint.read(ctx, keys)
	rows := make(map[string]*models.Action, len(keys))
	for key, payload := range named {
		if row := found[key]; row != nil && !(channel == runUpdatesChannel && row.ParentActionName.Valid) {
			rows[payload] = row
		}
	}
	return rows, err
}

// rowNamed returns the key of the row that a payload of channel names, if it names one.
func rowNamed(channel, payload string) (key rowKey, names bool) {
	if channel == runUpdatesChannel {
		payload += "/" + rootActionName
	}
	parts := strings.SplitN(payload, "/", 4)
	if len(parts) < 4 {
		return rowKey{}, false
	}
	return rowKey{parts[0], parts[1], parts[2], parts[3]}, true
}

type readingKey struct{ channel string }

// reading returns a context under which GetRun or GetAction read for a watcher.
func (r *readingAhead) reading(ctx context.Context, channel string, ahead *readAhead) context.Context {
	return context.WithValue(ctx, readingKey{channel}, ahead)
}

// readForWatcher returns the row that payload names, nil if there is none: by what reads for the watcher whose context ctx is,
// for everybody else by readOne.
func readForWatcher(ctx context.Context, channel, payload string, readOne func() (*models.Action, error)) (*models.Action, error) {
	if ahead, watches := ctx.Value(readingKey{channel}).(*readAhead); watches {
		return ahead.read(ctx, payload, readOne)
	}
	return readOne()
}

// aheadGroup is what a watcher is told of: the actions of a run, or all runs.
type aheadGroup struct{ channel, run string }

func groupOf(channel, payload string) aheadGroup {
	group := aheadGroup{channel: channel}
	if key, names := rowNamed(channel, payload); names && channel == actionUpdatesChannel {
		group.run = payload[:len(payload)-len(key.name)-1]
	}
	return group
}

// watchersAhead are the watchers that are read ahead for. The zero value is none.
type watchersAhead struct {
	mu     sync.RWMutex
	groups map[aheadGroup]map[*readAhead]struct{}
}

func (w *watchersAhead) add(group aheadGroup, ahead *readAhead) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.groups == nil {
		w.groups = map[aheadGroup]map[*readAhead]struct{}{}
	}
	if w.groups[group] == nil {
		w.groups[group] = map[*readAhead]struct{}{}
	}
	w.groups[group][ahead] = struct{}{}
}

func (w *watchersAhead) remove(group aheadGroup, ahead *readAhead) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.groups[group], ahead)
	if len(w.groups[group]) == 0 {
		delete(w.groups, group)
	}
}

// note is told of every payload that arrives, before any watcher is.
func (w *watchersAhead) note(channel, payload string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for ahead := range w.groups[groupOf(channel, payload)] {
		ahead.note(payload)
	}
}
