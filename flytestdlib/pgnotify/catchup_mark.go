package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// mark is what one sweep needs to know of the server, and what the next one needs to know of that sweep.
type mark struct {
	at          time.Time           // by the server's clock
	taken       time.Time           // the same instant by ours, or a little later: when its answer was there
	asked       time.Time           // by ours, when it was asked for
	incarnation string              // changes when transaction numbers may be used again
	open        map[openTx]struct{} // transactions that were open and may have stamped rows
	snapshot    *snapshot
}

// since is how long ago the given moment of the server's clock is, taking the mark to lie half way between question and answer, and
// both clocks to go equally fast since.
func (m mark) since(at time.Time) time.Duration {
	middle := m.asked.Add(m.taken.Sub(m.asked) / 2)
	return time.Since(middle) - at.Sub(m.at)
}

// openTx is a transaction that was open at a mark.
type openTx struct {
	pid   int
	start int64 // by the server's clock, in microseconds since 1970
}

func (t openTx) startedAt() time.Time { return time.UnixMicro(t.start) }

// Transactions that have written something, or wait for a lock that keeps them from it, in this database. One that is open, has written
// nothing and will stamp a row with its start later on is not seen: the overlap is for it. Nor are sessions of other roles,
// unless ours may read all statistics.
//
// The incarnation is there because a crash loses the last transaction numbers, which are then given out again, and a
// snapshot from before would say of such a new transaction that it had ended. pg_postmaster_start_time tells a restarted
// server and another one behind the same address; the statistics are reset by a recovery that the postmaster survives.
const markSQL = `SELECT
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	concat(pg_postmaster_start_time(), ' ', (SELECT stats_reset FROM pg_stat_bgwriter)),
	a.pid,
	(extract(epoch FROM a.xact_start) * 1000000)::bigint
FROM (SELECT) AS one
LEFT JOIN pg_stat_activity AS a ON a.datname = current_database() AND a.backend_type = 'client backend'
	AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL AND (a.backend_xid IS NOT NULL OR a.wait_event_type = 'Lock')`

// A statement of its own, after the other: a transaction that ended between the two is in the list, one that ended before is in the
// snapshot. The other way round it could be in neither.
const markSnapshotSQL = `SELECT pg_current_snapshot()`

// takeMark asks the server. It takes two round trips.
func takeMark(ctx context.Context, conn *pgconn.PgConn) (mark, error) {
	m := mark{open: map[openTx]struct{}{}, asked: time.Now()}
	rows, err := queryRows(ctx, conn, markSQL)
	m.taken = time.Now()
	if err != nil {
		return m, err
	}
	if len(rows) == 0 {
		return m, errors.New("the server's clock returned no row")
	}
	for _, row := range rows {
		var numbers [4]int64
		for i, column := range row {
			if i == 1 || column == "" { // not a number; or null
				continue
			}
			if numbers[i], err = strconv.ParseInt(column, 10, 64); err != nil {
				return m, fmt.Errorf("column %d of the server's clock: %w", i+1, err)
			}
		}
		m.at, m.incarnation = time.UnixMicro(numbers[0]), row[1]
		if row[2] != "" {
			m.open[openTx{pid: int(numbers[2]), start: numbers[3]}] = struct{}{}
		}
	}

	rows, err = queryRows(ctx, conn, markSnapshotSQL)
	if err != nil {
		return m, err
	}
	if len(rows) != 1 {
		return m, fmt.Errorf("the server's snapshot has %d rows", len(rows))
	}
	m.snapshot, err = parseSnapshot(rows[0][0])
	return m, err
}

// queryRows runs one statement by the simple protocol, outside any transaction, and returns its rows as text; null is empty.
func queryRows(ctx context.Context, conn *pgconn.PgConn, sql string) ([][]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, result := range results {
		for _, values := range result.Rows {
			row := make([]string, len(values))
			for i, value := range values {
				row[i] = string(value)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}
