package interfaces

import (
	"context"
	"time"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// ActionRepo stores runs, actions and their events, and tells watchers in every replica when one changes.
//
// A run is its root action, the one without a parent, named a0. All methods may be called from any goroutine.
//
// Every method that changes something wakes the watchers after its commit, never before, and whatever has become of its ctx
// meanwhile: a change that is committed is announced. When a write ends in an error that leaves open whether it was committed (the
// connection broke, ctx ended while the server worked), the watchers are woken too; a wake-up without a change costs them one read.
//
// A wake-up says "look again", not what changed: a watcher gets the row as it is when it is read, and several changes in
// quick succession may reach it as one.
type ActionRepo interface {
	// GetRun reads a run. Its error when there is none begins with "run not found".
	GetRun(ctx context.Context, runID *common.RunIdentifier) (*models.Run, error)

	// AbortRun sets the root action of a run to ABORTED, with the reason and the time of the request, and ends it; the run's other
	// actions are left to whoever runs them. A run that has SUCCEEDED or RECOVERED has nothing left to abort: it stays as it
	// is, without an error. abortedBy goes to the log: the table has no place for it.
	// Wakes the watchers of the run and of its root action. Not found: "run not found".
	AbortRun(ctx context.Context, runID *common.RunIdentifier, reason string, abortedBy *common.EnrichedIdentity) error

	// CreateAction inserts action and returns the row as stored. When its key is taken it changes nothing, wakes nobody and
	// returns the row that is there, so that a call can be repeated. action itself is not modified.
	//
	// updateTriggeredAt says that a trigger is firing now and that this counts as its last time. When a trigger last fired is the
	// newest created_at among the runs that carry its name, there being no table of triggers here; so the row's created_at
	// is then taken from the database's clock, whatever action.CreatedAt says, and action must be a root action that names
	// its trigger. Without it, action.CreatedAt counts where it is set.
	//
	// Wakes the watchers of the action, and those of the run for a root action.
	CreateAction(ctx context.Context, action *models.Action, updateTriggeredAt bool) (*models.Action, error)

	// InsertEvents inserts events, 5,000 rows a statement; a row that is there already is left alone. Each statement commits by
	// itself: after an error the statements before it remain, and repeating the call completes it. Wakes the watchers of each
	// distinct action once.
	InsertEvents(ctx context.Context, events []*models.ActionEvent) error

	// ListEvents reads up to limit (> 0) events of an action, ordered by attempt, phase, version. No events is no error.
	ListEvents(ctx context.Context, actionID *common.ActionIdentifier, limit int) ([]*models.ActionEvent, error)

	// GetLatestEventByAttempt reads the event of the highest phase, and of the highest version within it, of one attempt.
	GetLatestEventByAttempt(ctx context.Context, actionID *common.ActionIdentifier, attempt uint32) (*models.ActionEvent, error)

	// GetAction reads an action. Its error when there is none begins with "action not found".
	GetAction(ctx context.Context, actionID *common.ActionIdentifier) (*models.Action, error)

	// ListActions reads one page, and one row beyond it when there is one, which tells that another page follows.
	ListActions(ctx context.Context, input ListResourceInput) ([]*models.Action, error)

	// UpdateActionPhase moves an action to phase, in one statement.
	//
	// A phase moves forward only: its number must not fall. Two exceptions: FAILED and TIMED_OUT may go anywhere, for a retry, and
	// PAUSED may go to any phase that ends an action. A write that these rules or a missing row turn away is no error and wakes nobody.
	//
	// startTime, where given, moves created_at back, never forward. endTime, where given, sets ended_at the first time only, and never
	// to a moment before created_at. duration_ms is the whole milliseconds between the two. attempts and cacheStatus are set as given.
	//
	// Wakes the watchers of the action, and those of the run when the action is its root.
	UpdateActionPhase(ctx context.Context, actionID *common.ActionIdentifier, phase common.ActionPhase, attempts uint32,
		cacheStatus core.CatalogCacheStatus, endTime, startTime *time.Time) error

	// UpdateActionDetailedInfo replaces detailed_info. Error: sql.ErrNoRows, wrapped, when there is no such action.
	// Wakes the watchers of the action, and those of the run when the action is its root.
	UpdateActionDetailedInfo(ctx context.Context, actionID *common.ActionIdentifier, info []byte) error

	// AbortAction does to one action what AbortRun does to a root action; it wakes the watchers of the action, and those of the run
	// when the action is its root. Not found: "action not found".
	AbortAction(ctx context.Context, actionID *common.ActionIdentifier, reason string, abortedBy *common.EnrichedIdentity) error

	// UpdateActionState replaces the state that the action's executor keeps, which must be a JSON text; it is stored byte for byte in
	// action_details. Errors: not JSON; not found. Wakes like UpdateActionDetailedInfo.
	UpdateActionState(ctx context.Context, actionID *common.ActionIdentifier, state string) error

	// NotifyStateUpdate changes nothing and wakes the watchers of the action. Error: an identifier with an empty part.
	NotifyStateUpdate(ctx context.Context, actionID *common.ActionIdentifier) error

	// The Watch methods block until ctx ends, or until an error is handed to errs; run each in a goroutine of its own. They send
	// changes from the moment they have registered, so a caller that also wants what is there already reads it after starting them.
	// They close neither channel. A receiver that is slow holds up its own watch only.

	// WatchRunUpdates sends one run whenever it changes. A failed read goes to errs and ends the watch.
	WatchRunUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Run, errs chan<- error)

	// WatchAllRunUpdates sends every run that changes. A failed read is logged and that change skipped: errs stays unused.
	WatchAllRunUpdates(ctx context.Context, updates chan<- *models.Run, errs chan<- error)

	// WatchAllActionUpdates sends every action of one run that changes; changes of an action that have queued up are sent
	// as one. A failed read goes to errs and ends the watch, but an action that does not exist is skipped.
	WatchAllActionUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Action, errs chan<- error)

	// WatchActionUpdates sends one action whenever it or its events change; changes that have queued up are sent as one. A failed
	// read goes to errs and ends the watch, but an action that does not exist (yet) is skipped.
	WatchActionUpdates(ctx context.Context, actionID *common.ActionIdentifier, updates chan<- *models.Action, errs chan<- error)
}
