package impl

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

const (
	// catchUpPage is how many rows are read at a time.
	catchUpPage = 1000

	// catchUpOverlap is how far each catch-up reaches back behind the one before. updated_at comes from the clock of the process
	// that wrote it: 20 s for clocks that differ, from the database's or among replicas, and 10 s from the stamp to the commit.
	catchUpOverlap = 30 * time.Second
)

// Each reads a page of what was stamped from a time on, behind the last row of the page before. xmin is the transaction that
// wrote the row; by it the listener knows what was heard of already.
const (
	changedActionsSQL = `
SELECT updated_at, project, domain, run_name, name, xmin::text::bigint, parent_action_name IS NULL
FROM actions
WHERE (updated_at, project, domain, run_name, name) > ($1, $2, $3, $4, $5)
ORDER BY updated_at, project, domain, run_name, name
LIMIT $6`

	// An action counts once for all events of one stamp. Where they are of several transactions (0), it is told again in any case.
	newEventsSQL = `
SELECT created_at, project, domain, run_name, name,
	CASE WHEN min(xmin::text::bigint) = max(xmin::text::bigint) THEN min(xmin::text::bigint) ELSE 0 END, false
FROM action_events
WHERE (created_at, project, domain, run_name, name) > ($1, $2, $3, $4, $5)
GROUP BY created_at, project, domain, run_name, name
ORDER BY created_at, project, domain, run_name, name
LIMIT $6`
)

// catchUpPosition is the last row of a page: where the next one begins.
type catchUpPosition struct {
	Events                         bool // all changed actions have been read
	At                             time.Time
	Project, Domain, RunName, Name string
}

// catchUpFrom returns what finds the runs and actions that changed while nobody listened: the actions written since, then those that
// got events since.
func catchUpFrom(db *sql.DB) pgnotify.CatchUp {
	return func(ctx context.Context, since time.Time, after string) (changes []pgnotify.Change, next string, err error) {
		from := catchUpPosition{At: since}
		if after != "" {
			if err := json.Unmarshal([]byte(after), &from); err != nil {
				return nil, "", fmt.Errorf("catch-up position %q: %w", after, err)
			}
		}
		changes, last, full, err := readChanges(ctx, db, from)
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
}

// readChanges reads one page; full says that there may be more.
func readChanges(ctx context.Context, db *sql.DB, from catchUpPosition) (changes []pgnotify.Change, last catchUpPosition, full bool, err error) {
	query := changedActionsSQL
	if from.Events {
		query = newEventsSQL
	}
	rows, err := db.QueryContext(ctx, query, from.At, from.Project, from.Domain, from.RunName, from.Name, catchUpPage)
	if err != nil {
		return nil, from, false, fmt.Errorf("read what changed: %w", err)
	}
	defer func() { _ = rows.Close() }()

	count := 0
	last = from
	for rows.Next() {
		var xid int64
		var isRun bool
		if err := rows.Scan(&last.At, &last.Project, &last.Domain, &last.RunName, &last.Name, &xid, &isRun); err != nil {
			return nil, from, false, fmt.Errorf("read what changed: %w", err)
		}
		count++
		run := fmt.Sprintf("%s/%s/%s", last.Project, last.Domain, last.RunName)
		changes = append(changes, pgnotify.Change{Channel: notifyChannelActions, Payload: run + "/" + last.Name, XID: uint32(xid)})
		if isRun {
			changes = append(changes, pgnotify.Change{Channel: notifyChannelRuns, Payload: run, XID: uint32(xid)})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, from, false, fmt.Errorf("read what changed: %w", err)
	}
	return changes, last, count == catchUpPage, nil
}
