package impl

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"

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
	if isPlain(runID) {
		ctx = r.reading(ctx, runUpdatesChannel, r.newReadAhead(runUpdatesChannel))
	}
	r.actionRepo.WatchRunUpdates(ctx, runID, updates, errs)
}

// WatchAllRunUpdates implements interfaces.ActionRepo.
func (r *readingAhead) WatchAllRunUpdates(ctx context.Context, updates chan<- *models.Run, errs chan<- error) {
	ctx, leave := r.watching(ctx, aheadGroup{channel: runUpdatesChannel})
	defer leave()
	r.actionRepo.WatchAllRunUpdates(ctx, updates, errs)
}

// WatchAllActionUpdates implements interfaces.ActionRepo.
func (r *readingAhead) WatchAllActionUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Action, errs chan<- error) {
	if isPlain(runID) {
		reading, leave := r.watching(ctx, aheadGroup{actionUpdatesChannel, runKey(runID)})
		defer leave()
		ctx = reading
	}
	r.actionRepo.WatchAllActionUpdates(ctx, runID, updates, errs)
}

// WatchActionUpdates implements interfaces.ActionRepo.
func (r *readingAhead) WatchActionUpdates(ctx context.Context, actionID *common.ActionIdentifier, updates chan<- *models.Action, errs chan<- error) {
	if isPlain(actionID.GetRun()) {
		ctx = r.reading(ctx, actionUpdatesChannel, r.newReadAhead(actionUpdatesChannel))
	}
	r.actionRepo.WatchActionUpdates(ctx, actionID, updates, errs)
}

// isPlain tells whether a payload that names the run, or an action of it, names no other row as well. With a slash in the run's names it does: a/b/c/d/e
// is an action of a/b/c and of a/b/c/d. Those who watch such a run read each row by its identifier, as ever.
func isPlain(run *common.RunIdentifier) bool {
	return strings.Count(runKey(run), "/") == 2
}

// watching lets a watcher read ahead what the group's payloads name, until leave.
func (r *readingAhead) watching(ctx context.Context, group aheadGroup) (_ context.Context, leave func()) {
	ahead := r.newReadAhead(group.channel)
	ahead.hears = true
	ahead.recent = func() (payloads []string) {
		r.backlog.EachRecent(group.channel, func(payload string) {
			if of, named := groupOf(group.channel, payload); named && of == group {
				payloads = append(payloads, payload)
			}
		})
		return payloads
	}
	r.ahead.add(group, ahead)
	return r.reading(ctx, group.channel, ahead), func() { r.ahead.remove(group, ahead) }
}

// newReadAhead returns one that hears of nothing, and so reads in common but not ahead.
func (r *readingAhead) newReadAhead(channel string) *readAhead {
	return newReadAhead(func(ctx context.Context, payloads []string) (map[string]*models.Action, error) {
		return r.readNamed(ctx, channel, payloads)
	})
}

// readNamed reads in common what payloads of a channel name. Of runs it finds those only whose root action has the name that it should have.
func (r *readingAhead) readNamed(ctx context.Context, channel string, payloads []string) (map[string]*models.Action, error) {
	keys := make([]rowKey, 0, len(payloads))
	for _, payload := range payloads {
		key, _ := rowNamed(channel, payload)
		keys = append(keys, key)
	}
	found, err := r.joint.read(ctx, keys)
	rows := make(map[string]*models.Action, len(payloads))
	for i, payload := range payloads {
		if row := found[keys[i]]; row != nil && !(channel == runUpdatesChannel && row.ParentActionName.Valid) {
			rows[payload] = row
		}
	}
	return rows, err
}

// rowNamed returns the key of the row that a payload of channel names, if it names one. Somebody else's NOTIFY may have any text that the database's
// encoding has room for; one that no column has room for would take all rows of a statement with it.
func rowNamed(channel, payload string) (key rowKey, named bool) {
	if !utf8.ValidString(payload) || strings.ContainsRune(payload, 0) {
		return rowKey{}, false
	}
	parts := strings.SplitN(payload, "/", 4)
	switch {
	case channel == runUpdatesChannel && len(parts) == 3:
		return rowKey{parts[0], parts[1], parts[2], rootActionName}, true
	case channel == actionUpdatesChannel && len(parts) == 4:
		return rowKey{parts[0], parts[1], parts[2], parts[3]}, true
	}
	return rowKey{}, false
}

type readingKey struct{ channel string }

// reading returns a context under which GetRun or GetAction read for a watcher.
func (r *readingAhead) reading(ctx context.Context, channel string, ahead *readAhead) context.Context {
	return context.WithValue(ctx, readingKey{channel}, ahead)
}

// readForWatcher returns the row that payload names, nil if there is none: by what reads for the watcher whose context ctx is,
// for everybody else by readOne.
func readForWatcher(ctx context.Context, channel, payload string, readOne func() (*models.Action, error)) (*models.Action, error) {
	ahead, watches := ctx.Value(readingKey{channel}).(*readAhead)
	if _, named := rowNamed(channel, payload); !watches || !named {
		return readOne()
	}
	return ahead.read(ctx, payload, readOne)
}

// aheadGroup is what a watcher is told of: the actions of a run, or all runs.
type aheadGroup struct{ channel, run string }

// groupOf returns the group of a payload that names a row.
func groupOf(channel, payload string) (group aheadGroup, named bool) {
	key, named := rowNamed(channel, payload)
	group.channel = channel
	if named && channel == actionUpdatesChannel {
		group.run = payload[:len(payload)-len(key.name)-1]
	}
	return group, named
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
	group, named := groupOf(channel, payload)
	if !named {
		return
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	for ahead := range w.groups[group] {
		ahead.note(payload)
	}
}
