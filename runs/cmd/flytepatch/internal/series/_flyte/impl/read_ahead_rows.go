package impl

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// notifySubscriberSlots is how many payloads wait for one watcher.
const notifySubscriberSlots = 100

// newReadingAhead has those who watch through the repository read in common, and ahead. Where nothing listens there is nothing to read.
func newReadingAhead(repo *actionRepo) interfaces.ActionRepo {
	if repo.backlog == nil {
		return repo
	}
	return &readingAhead{repo}
}

// readAheadFor returns the row that payload names, for a watcher whose context ctx is; nil where the caller must read it: for all who do
// not watch, and for what is not there or can't be had in common. The row is the caller's own; what its slices point to is shared.
func readAheadFor(ctx context.Context, channel, payload string) *models.Action {
	row, err := readForWatcher(ctx, channel, payload, func() (*models.Action, error) { return nil, nil })
	if row == nil || err != nil {
		return nil
	}
	own := *row
	return &own
}

// fetchRowsSQL looks up each row by a query of its own within the statement, by its key, so that the cost is that of the rows that are asked for. OFFSET
// keeps the planner from making one join of it, which might read the whole table; LIMIT would do so too, and make it hope to find the row
// soon by looking through the table. The length of a large value is known without reading it. The keys are one parameter, so the statement is
// the same for any number of them; as JSON, because drivers differ in how they bind arrays.
const fetchRowsSQL = `
SELECT found.* FROM json_to_recordset($1::text::json) AS asked ("Project" text, "Domain" text, "Run" text, "Name" text)
CROSS JOIN LATERAL (
	SELECT * FROM actions AS a
	WHERE a.project = asked."Project" AND a.domain = asked."Domain" AND a.run_name = asked."Run" AND a.name = asked."Name"
		AND coalesce(octet_length(a.action_spec), 0) + coalesce(octet_length(a.action_details), 0) +
			coalesce(octet_length(a.detailed_info), 0) + coalesce(octet_length(a.run_spec), 0) <= $2
	OFFSET 0) AS found`

// fetchRowsFrom returns what reads rows by their keys, without the large ones. Columns that the model does not have are passed over.
func fetchRowsFrom(db *sqlx.DB) func(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
	type asked struct{ Project, Domain, Run, Name string }
	db = db.Unsafe()
	return func(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
		all := make([]asked, len(keys))
		for i, key := range keys {
			all[i] = asked{key.project, key.domain, key.run, key.name}
		}
		encoded, err := json.Marshal(all)
		if err != nil {
			return nil, fmt.Errorf("keys of rows to read: %w", err)
		}
		var found []*models.Action
		if err := db.SelectContext(ctx, &found, fetchRowsSQL, string(encoded), jointRowBytes); err != nil {
			return nil, fmt.Errorf("read rows in common: %w", err)
		}
		rows := make(map[rowKey]*models.Action, len(found))
		for _, row := range found {
			rows[keyOf(row)] = row
		}
		return rows, nil
	}
}
