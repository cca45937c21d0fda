package impl

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// jointStatements is how many statements read for watchers at the same time, and so how many of the pool's connections all watchers
	// together take from the RPCs.
	jointStatements = 2
	// jointRows is from how many rows on one of them takes no further request.
	jointRows = 1000
	// jointRowBytes bounds the rows that are read in common: nobody shall wait for somebody else's large one.
	jointRowBytes = 16 << 10
	// jointTimeout bounds a statement, the wait for a connection included. It takes milliseconds; one whose connection has died without a word must
	// not hold up half of all watchers for as long as that may go unnoticed.
	jointTimeout = 10 * time.Second
	// jointComplaints is how often a failure is written about. The watchers help themselves, so nobody else would say what is wrong.
	jointComplaints = time.Minute
)

var errJointReaderClosed = errors.New("the repository is closed")

// rowKey is the primary key of actions.
type rowKey struct{ project, domain, run, name string }

func keyOf(row *models.Action) rowKey {
	return rowKey{row.Project, row.Domain, row.RunName, row.Name}
}

// jointReader reads for all watchers in common. A change wakes many of them at once, and each wants its rows; while a statement or two are
// under way, what is wanted gathers, and the next statement reads it all. So the watchers load the database with a few statements per round
// trip, however many they are and however much changes.
type jointReader struct {
	fetch func(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error)

	// observe is told of each statement: how many rows it was to read, how long it took, and why it failed, if it did.
	observe func(rows int, took time.Duration, err error)

	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	waiting []*jointRequest
	running int       // statements
	failed  time.Time // when a failure was last written about
	ended   sync.WaitGroup
}

type jointRequest struct {
	keys []rowKey
	done chan struct{} // closed when rows and err are set
	rows map[rowKey]*models.Action
	err  error
}

func newJointReader(fetch func(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error)) *jointReader {
	j := &jointReader{fetch: fetch, observe: func(int, time.Duration, error) {}}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	return j
}

// read returns, of the rows with the given keys, those that are there and not large. Every read begins after the call. The rows are the
// caller's to read only: others may have the same.
func (j *jointReader) read(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
	request := &jointRequest{keys: keys, done: make(chan struct{})}
	j.enter(request)
	select {
	case <-request.done:
		return request.rows, request.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// enter makes sure that somebody reads what is asked for.
func (j *jointReader) enter(request *jointRequest) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ctx.Err() != nil {
		request.err = errJointReaderClosed
		close(request.done)
		return
	}
	j.waiting = append(j.waiting, request)
	if j.running < jointStatements {
		j.running++
		j.ended.Go(j.run)
	}
}

// run reads until nobody waits.
func (j *jointReader) run() {
	for batch, keys := j.take(); len(batch) > 0; batch, keys = j.take() {
		began := time.Now()
		rows, err := j.fetchInTime(keys)
		j.observe(len(keys), time.Since(began), err)
		if err != nil {
			j.complain(len(batch), err)
		}
		for _, request := range batch {
			request.rows, request.err = rows, err
			close(request.done)
		}
	}
}

// fetchInTime makes an error of a panic, which would end the process here; whoever reads for itself then meets it on a goroutine that knows what to do.
func (j *jointReader) fetchInTime(keys []rowKey) (rows map[rowKey]*models.Action, err error) {
	ctx, cancel := context.WithTimeout(j.ctx, jointTimeout)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			rows, err = nil, fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}
	}()
	return j.fetch(ctx, keys)
}

// complain is no logger.Fold, because this file is carried to Flyte, whose logger has none.
func (j *jointReader) complain(requests int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ctx.Err() == nil && time.Since(j.failed) >= jointComplaints {
		j.failed = time.Now()
		logger.Warnf(j.ctx, "%d watchers try again to read, and then each by itself: reading in common failed: %v", requests, err)
	}
}

// take takes what is to be read by the next statement, each key once. With nothing to read it counts the caller out.
func (j *jointReader) take() (batch []*jointRequest, keys []rowKey) {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen := map[rowKey]bool{}
	for len(j.waiting) > 0 && len(keys) < jointRows {
		request := j.waiting[0]
		j.waiting[0] = nil
		j.waiting = j.waiting[1:]
		batch = append(batch, request)
		for _, key := range request.keys {
			if !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	if len(batch) == 0 {
		j.running--
	}
	return batch, keys
}

// close ends what is under way and waits until it has ended. What is asked for later fails.
func (j *jointReader) close() {
	j.mu.Lock()
	j.cancel()
	j.mu.Unlock()
	j.ended.Wait()
}

// fetchRowsSQL looks up each row by a query of its own within the statement, by its key, so that the cost is that of the rows that are asked for. OFFSET
// keeps the planner from making one join of it, which might read the whole table; LIMIT would do so too, and make it hope to find the row
// soon by looking through the table. The length of a large value is known without reading it.
const fetchRowsSQL = `(
	SELECT found.* FROM unnest(?::text[], ?::text[], ?::text[], ?::text[]) AS asked (project, domain, run_name, name)
	CROSS JOIN LATERAL (
		SELECT * FROM actions AS a
		WHERE a.project = asked.project AND a.domain = asked.domain AND a.run_name = asked.run_name AND a.name = asked.name
			AND coalesce(octet_length(a.action_spec), 0) + coalesce(octet_length(a.action_details), 0) +
				coalesce(octet_length(a.detailed_info), 0) + coalesce(octet_length(a.run_spec), 0) <= ?
		OFFSET 0) AS found)`

// fetchRows reads rows by their keys, without the large ones.
func (r *actionRepo) fetchRows(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
	var projects, domains, runs, names textArray
	for _, key := range keys {
		projects, domains = append(projects, key.project), append(domains, key.domain)
		runs, names = append(runs, key.run), append(names, key.name)
	}
	var found []*models.Action
	err := r.db.WithContext(ctx).
		Table(fetchRowsSQL+" AS actions", projects, domains, runs, names, jointRowBytes).
		Find(&found).Error
	if err != nil {
		return nil, err
	}
	rows := make(map[rowKey]*models.Action, len(found))
	for _, row := range found {
		rows[keyOf(row)] = row
	}
	return rows, nil
}

// textArray is bound as one parameter, where gorm would make one of each element, and thus a statement of its own for each length.
type textArray []string

// Value implements driver.Valuer, which is how gorm knows what it must not take apart. The driver encodes the array.
func (a textArray) Value() (driver.Value, error) { return []string(a), nil }
