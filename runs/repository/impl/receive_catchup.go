package impl

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// catchUpPage is how many rows are read at a time: a few milliseconds' work for the database, a few hundred kilobytes here.
const catchUpPage = 1000

// Each reads the page behind a given row, in the order of its index (idx_actions_updated_at, idx_action_events_created_at), rows of the
// same microsecond by their key. Every write stamps its row by the database's clock. xmin is the transaction that
// wrote the row, by which the listener tells what has been heard of already.
const (
	changedActionsSQL = `
SELECT updated_at, project, domain, run_name, name, xmin::text::bigint, parent_action_name IS NULL
FROM actions
WHERE (updated_at, project, domain, run_name, name) > ($1, $2, $3, $4, $5)
ORDER BY updated_at, project, domain, run_name, name
LIMIT $6`

	// The events of an action that one transaction wrote, and so stamped alike, are one change. Where transactions share a stamp the number is
	// left out: 0 says that it is not known, and the change is announced in any case.
	addedEventsSQL = `
SELECT created_at, project, domain, run_name, name,
	CASE WHEN min(xmin::text::bigint) = max(xmin::text::bigint) THEN min(xmin::text::bigint) ELSE 0 END, false
FROM action_events
WHERE (created_at, project, domain, run_name, name) > ($1, $2, $3, $4, $5)
GROUP BY created_at, project, domain, run_name, name
ORDER BY created_at, project, domain, run_name, name
LIMIT $6`
)

// catchUpPosition is the row behind which a page begins. Its text form is what pgnotify carries from page to page.
type catchUpPosition struct {
	// Events says that all changed actions have been read, and the position is one in action_events.
	Events  bool      `json:"events,omitempty"`
	At      time.Time `json:"at"`
	Project string    `json:"project"`
	Domain  string    `json:"domain"`
	RunName string    `json:"runName"`
	Name    string    `json:"name"`
}

// catchUp is the pgnotify.CatchUp of this service: what was written at or after since, first the actions, then the events.
func (r *actionRepo) catchUp(ctx context.Context, since time.Time, after string) (changes []pgnotify.Change, next string, err error) {
	from := catchUpPosition{At: since} // before any row of that instant, since no name is empty
	if after != "" {
		if err := json.Unmarshal([]byte(after), &from); err != nil {
			return nil, "", fmt.Errorf("catch-up position %q: %w", after, err)
		}
	}
	changes, last, full, err := r.readChanges(ctx, from)
	switch {
	case err != nil:
		return nil, "", err
	case full:
	case from.Events:
		return changes, "", nil
	default:
		last = catchUpPosition{Events: true, At: since}
	}
	encoded, err := json.Marshal(last)
	if err != nil {
		return nil, "", fmt.Errorf("catch-up position: %w", err)
	}
	return changes, string(encoded), nil
}

// readChanges reads one page; full says that more may follow. It uses no prepared statement, so none can be out of date: it runs too
// seldom to gain by one, and must not fail at the first run after a migration.
func (r *actionRepo) readChanges(ctx context.Context, from catchUpPosition) (changes []pgnotify.Change, last catchUpPosition, full bool, err error) {
	query, what := changedActionsSQL, "changed actions"
	if from.Events {
		query, what = addedEventsSQL, "added events"
	}
	rows, err := r.sqlDB.QueryContext(ctx, query, pgx.QueryExecModeExec, from.At, from.Project, from.Domain, from.RunName, from.Name, catchUpPage)
	if err != nil {
		return nil, from, false, fmt.Errorf("read %s: %w", what, err)
	}
	defer func() { _ = rows.Close() }()

	last = from
	count := 0
	for rows.Next() {
		var xid int64
		var isRun bool
		if err := rows.Scan(&last.At, &last.Project, &last.Domain, &last.RunName, &last.Name, &xid, &isRun); err != nil {
			return nil, from, false, fmt.Errorf("read %s: %w", what, err)
		}
		count++
		run := last.Project + "/" + last.Domain + "/" + last.RunName
		changes = append(changes, pgnotify.Change{Channel: actionUpdatesChannel, Payload: run + "/" + last.Name, XID: uint32(xid)})
		if isRun {
			changes = append(changes, pgnotify.Change{Channel: runUpdatesChannel, Payload: run, XID: uint32(xid)})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, from, false, fmt.Errorf("read %s: %w", what, err)
	}
	return changes, last, count == catchUpPage, nil
}
