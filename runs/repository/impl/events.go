package impl

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// eventsPerInsert is how many rows, of nine columns each, go into one statement.
const eventsPerInsert = 5000

// insertEventsSQL takes one array per column: the text, and with it the prepared statement, is the same for any number of rows.
// A VALUES list has one parameter per value, and would leave a prepared statement for each number of rows ever inserted.
const insertEventsSQL = `
INSERT INTO action_events (project, domain, run_name, name, attempt, phase, version, info, error_kind)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::int[], $7::int[], $8::bytea[], $9::text[])
ON CONFLICT DO NOTHING`

// InsertEvents implements interfaces.ActionRepo.
func (r *actionRepo) InsertEvents(ctx context.Context, events []*models.ActionEvent) error {
	for i, event := range events {
		if event == nil {
			return fmt.Errorf("insert events: events[%d] must be set", i)
		}
	}
	// An insert waits for another one of the same key that is still open. Two that take keys in different orders could so wait for each
	// other; with all in one order they cannot.
	events = slices.SortedFunc(slices.Values(events), compareEventKeys)

	committed := 0
	defer func() { r.notifyEvents(ctx, events[:committed]) }()
	for chunk := range slices.Chunk(events, eventsPerInsert) {
		if err := r.insertEventChunk(ctx, chunk); err != nil {
			announce(err, func() { r.notifyEvents(ctx, chunk) })
			return fmt.Errorf("insert events: %w", err)
		}
		committed += len(chunk)
	}
	return nil
}

func compareEventKeys(a, b *models.ActionEvent) int {
	return cmp.Or(
		cmp.Compare(a.Project, b.Project), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.RunName, b.RunName), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Version, b.Version),
	)
}

func (r *actionRepo) insertEventChunk(ctx context.Context, events []*models.ActionEvent) error {
	n := len(events)
	var (
		projects, domains, runNames, names = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		attempts, phases, versions         = make([]int64, n), make([]int32, n), make([]int64, n)
		infos                              = make([][]byte, n)
		errorKinds                         = make([]*string, n)
	)
	for i, event := range events {
		projects[i], domains[i], runNames[i], names[i] = event.Project, event.Domain, event.RunName, event.Name
		attempts[i], phases[i], versions[i] = int64(event.Attempt), event.Phase, int64(event.Version)
		infos[i] = event.Info
		if event.ErrorKind.Valid {
			errorKinds[i] = &event.ErrorKind.String
		}
	}
	_, err := r.sqlDB.ExecContext(ctx, insertEventsSQL, projects, domains, runNames, names, attempts, phases, versions, infos, errorKinds)
	return err
}

// notifyEvents announces each action of events once; events are sorted by action.
func (r *actionRepo) notifyEvents(ctx context.Context, events []*models.ActionEvent) {
	last := ""
	for _, event := range events {
		id := actionIDOf(event)
		if key := actionKey(id); key != last {
			r.notifyActionUpdate(ctx, id)
			last = key
		}
	}
}

func actionIDOf(event *models.ActionEvent) *common.ActionIdentifier {
	return &common.ActionIdentifier{
		Run:  &common.RunIdentifier{Project: event.Project, Domain: event.Domain, Name: event.RunName},
		Name: event.Name,
	}
}

// ListEvents implements interfaces.ActionRepo.
func (r *actionRepo) ListEvents(ctx context.Context, actionID *common.ActionIdentifier, limit int) ([]*models.ActionEvent, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list events of action %s: limit: %d is below 1", actionKey(actionID), limit)
	}
	var events []*models.ActionEvent
	err := r.db.WithContext(ctx).Where(actionCondition, actionKeyArgs(actionID)...).
		Order("attempt, phase, version").Limit(limit).Find(&events).Error
	if err != nil {
		return nil, fmt.Errorf("list events of action %s: %w", actionKey(actionID), err)
	}
	return events, nil
}

// GetLatestEventByAttempt implements interfaces.ActionRepo.
func (r *actionRepo) GetLatestEventByAttempt(ctx context.Context, actionID *common.ActionIdentifier, attempt uint32) (*models.ActionEvent, error) {
	event, err := takeOne[models.ActionEvent](r.db.WithContext(ctx).
		Where(actionCondition, actionKeyArgs(actionID)...).Where("attempt = ?", attempt).Order("phase DESC, version DESC"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read latest event of action %s, attempt %d: %w", actionKey(actionID), attempt, err)
	case event == nil:
		return nil, &interfaces.NotFoundError{What: "event", Key: fmt.Sprintf("action %s, attempt %d", actionKey(actionID), attempt)}
	}
	return event, nil
}
