package impl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// desk is a jointReader whose statements wait until the test answers them.
type desk struct {
	*jointReader
	statements chan *statement
	reading    sync.WaitGroup
}

type statement struct {
	ctx    context.Context
	keys   []rowKey
	answer chan error // nil: a row for each key
}

func newDesk() *desk {
	d := &desk{statements: make(chan *statement, 1000)}
	d.jointReader = newJointReader(func(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
		s := &statement{ctx: ctx, keys: keys, answer: make(chan error)}
		d.statements <- s
		select {
		case err := <-s.answer:
			return rowsOf(keys), err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return d
}

func rowsOf(keys []rowKey) map[rowKey]*models.Action {
	rows := map[rowKey]*models.Action{}
	for _, key := range keys {
		rows[key] = &models.Action{Project: key.project, Domain: key.domain, RunName: key.run, Name: key.name}
	}
	return rows
}

// ask reads in the background; done is told what came of it.
func (d *desk) ask(ctx context.Context, done func(rows map[rowKey]*models.Action, err error), keys ...rowKey) {
	d.reading.Go(func() { done(d.read(ctx, keys)) })
}

func (d *desk) next(t *testing.T) *statement {
	t.Helper()
	synctest.Wait()
	select {
	case s := <-d.statements:
		return s
	default:
		require.Fail(t, "no statement is under way")
		return nil
	}
}

func (d *desk) none(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, d.statements)
}

// finish ends the reader and all who read.
func (d *desk) finish() {
	d.close()
	d.reading.Wait()
}

func keyNamed(name any) rowKey { return rowKey{"p", "d", "r", fmt.Sprint(name)} }

func mustRead(t *testing.T, keys ...rowKey) func(map[rowKey]*models.Action, error) {
	return func(rows map[rowKey]*models.Action, err error) {
		assert.NoError(t, err)
		for _, key := range keys {
			if assert.Contains(t, rows, key) {
				assert.Equal(t, key, keyOf(rows[key]))
			}
		}
	}
}

// However many read, two statements at a time do it, and what is wanted meanwhile comes with the next, each row once.
func TestManyReadInCommon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		defer d.finish()
		for i := range 300 {
			own, common := keyNamed(i), keyNamed("common")
			d.ask(t.Context(), mustRead(t, own, common), own, common)
			synctest.Wait() // so that they come one after the other
		}
		first, second := d.next(t), d.next(t)
		assert.Len(t, first.keys, 2)
		assert.Len(t, second.keys, 2)
		d.none(t)
		first.answer <- nil
		third := d.next(t)
		assert.Len(t, third.keys, 298+1)
		assert.Len(t, rowsOf(third.keys), 298+1, "each once")
		second.answer <- nil
		d.none(t)
		third.answer <- nil
		d.none(t)
		d.reading.Wait()
		assert.Zero(t, d.running)

		d.ask(t.Context(), mustRead(t, keyNamed("later")), keyNamed("later"))
		d.next(t).answer <- nil
	})
}

// Those who wait come in their order, and a statement has an end.
func TestAJointStatementIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		defer d.finish()
		for i := range jointStatements {
			d.ask(t.Context(), mustRead(t), keyNamed(i))
			synctest.Wait()
		}
		busy := []*statement{d.next(t), d.next(t)}
		const requests = 3 * jointRows / readAheadRows
		for i := range requests {
			var keys []rowKey
			for k := range readAheadRows {
				keys = append(keys, keyNamed(fmt.Sprint(i, "-", k)))
			}
			d.ask(t.Context(), mustRead(t, keys...), keys...)
			synctest.Wait()
		}
		total := 0
		for busy[0].answer <- nil; total < requests*readAheadRows; {
			s := d.next(t)
			assert.Equal(t, keyNamed(fmt.Sprint(total/readAheadRows, "-0")), s.keys[0])
			assert.Len(t, s.keys, jointRows)
			total += len(s.keys)
			s.answer <- nil
		}
		busy[1].answer <- nil
	})
}

// A statement under way may have read already what has changed since.
func TestAReadNeverJoinsAStatementThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		defer d.finish()
		key := keyNamed("a")
		for range jointStatements {
			d.ask(t.Context(), mustRead(t, key), key)
			synctest.Wait()
		}
		begun := []*statement{d.next(t), d.next(t)}
		late := false
		d.ask(t.Context(), func(map[rowKey]*models.Action, error) { late = true }, key)
		begun[0].answer <- nil
		synctest.Wait()
		assert.False(t, late)
		begun[1].answer <- nil
		d.next(t).answer <- nil
		synctest.Wait()
		assert.True(t, late)
	})
}

func TestAFailedJointStatementFailsThoseWhoseRowsItWasToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logged(t)
		d := newDesk()
		defer d.finish()
		broken := errors.New("the connection broke")
		fails := func(rows map[rowKey]*models.Action, err error) { assert.Equal(t, broken, err) }
		fail := func(times int) {
			for range times {
				d.ask(t.Context(), fails, keyNamed("a"))
				d.next(t).answer <- broken
			}
			synctest.Wait()
		}
		fail(3)
		assert.Equal(t, 1, strings.Count(log(), "1 watchers try again to read"))
		assert.Contains(t, log(), "reading in common failed: the connection broke")
		d.ask(t.Context(), mustRead(t, keyNamed("a")), keyNamed("a"))
		d.next(t).answer <- nil
		time.Sleep(jointComplaints)
		fail(2)
		assert.Equal(t, 2, strings.Count(log(), "the connection broke"))
	})
}

// It would end the process, and with it every stream.
func TestAPanicOfAJointReadIsAnError(t *testing.T) {
	logged(t)
	panics := true
	j := newJointReader(func(_ context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
		if panics {
			panic("the roof is on fire")
		}
		return rowsOf(keys), nil
	})
	defer j.close()
	rows, err := j.read(t.Context(), []rowKey{keyNamed("a")})
	require.ErrorContains(t, err, "the roof is on fire")
	require.ErrorContains(t, err, "joint_read_test.go")
	assert.Empty(t, rows)
	panics = false
	rows, err = j.read(t.Context(), []rowKey{keyNamed("a")})
	require.NoError(t, err)
	assert.Len(t, rows, 1)
}

// A connection that has died without a word holds up those whose rows it was to read, for a while, and nobody else.
func TestAJointStatementHasATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged(t)
		d := newDesk()
		defer d.finish()
		begin := time.Now()
		var stuck error
		d.ask(t.Context(), func(_ map[rowKey]*models.Action, err error) { stuck = err }, keyNamed("stuck"))
		d.next(t)
		for range 100 {
			d.ask(t.Context(), mustRead(t, keyNamed("a")), keyNamed("a"))
			d.next(t).answer <- nil
		}
		d.reading.Wait()
		require.ErrorIs(t, stuck, context.DeadlineExceeded)
		assert.Equal(t, jointTimeout, time.Since(begin))
	})
}

func TestWhoLeavesDoesNotWaitForAJointStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		defer d.finish()
		left := errors.New("left")
		ctx, leave := context.WithCancelCause(t.Context())
		d.ask(ctx, func(_ map[rowKey]*models.Action, err error) { assert.Equal(t, left, err) }, keyNamed("a"))
		s := d.next(t)
		leave(left)
		d.reading.Wait()
		require.NoError(t, s.ctx.Err(), "others may wait for it")
		s.answer <- nil
		d.none(t)
	})
}

func TestCloseEndsJointReadsInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logged(t)
		d := newDesk()
		var failures []error
		for i := range jointStatements + 10 { // under way, and waiting
			d.ask(t.Context(), func(_ map[rowKey]*models.Action, err error) {
				d.mu.Lock()
				defer d.mu.Unlock()
				failures = append(failures, err)
			}, keyNamed(i))
		}
		synctest.Wait()
		d.close()
		d.reading.Wait()
		assert.Len(t, failures, jointStatements+10)
		for _, err := range failures {
			assert.ErrorIs(t, err, context.Canceled)
		}
		_, err := d.read(t.Context(), []rowKey{keyNamed("late")})
		require.ErrorIs(t, err, errJointReaderClosed)
		d.close()
		assert.Empty(t, log(), "an end that was asked for is no failure")
	})
	newDesk().close() // unused
}

// What a statement uses is the caller's to close next.
func TestCloseWaitsForJointReadsToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		j := newJointReader(func(ctx context.Context, _ []rowKey) (map[rowKey]*models.Action, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return nil, ctx.Err()
		})
		ctx, leave := context.WithCancel(t.Context())
		leave()
		_, err := j.read(ctx, []rowKey{keyNamed("a")})
		require.ErrorIs(t, err, context.Canceled)
		j.close()
		assert.True(t, ended)
	})
}

// everyColumn fills a row, so that a column that is left out or mixed up shows.
const everyColumn = `UPDATE actions SET phase = 4, run_source = 's1', action_type = 2, action_group = 's2', task_project = 's3', task_domain = 's4',
	task_name = 's5', task_version = 's6', task_type = 's7', task_short_name = 's8', function_name = 's9', environment_name = 's10',
	action_spec = 's11', action_details = 's12', detailed_info = 's13', run_spec = 's14', abort_requested_at = '2026-01-02 03:04:05.678901Z',
	abort_attempt_count = 3, abort_reason = 's15', created_at = '2026-01-02 03:04:06Z', updated_at = '2026-01-02 03:04:07Z',
	ended_at = '2026-01-02 03:04:08Z', duration_ms = 5, attempts = 6, cache_status = 1, trigger_name = 's16', trigger_task_name = 's17',
	trigger_revision = 7, created_by = 's18', created_by_subject = 's19' WHERE name = ?`

// Names are for the database to compare, whatever is in them; and by whatever protocol the pool is told to use.
func TestWhatIsReadInCommonIsWhatIsReadAlone(t *testing.T) {
	config := testDbConfig(t)
	plain := config.Postgres.ExtraOptions
	for i, options := range []string{"", " default_query_exec_mode=exec", " default_query_exec_mode=simple_protocol", " default_query_exec_mode=describe_exec"} {
		t.Run(options, func(t *testing.T) {
			config.Postgres.ExtraOptions = plain + options
			r := openTestRepo(t, config)
			keys := []rowKey{{"proj", "dev", "nowhere", "nobody"}}
			for _, name := range []string{"plain", "a b", `"`, `\`, `\"`, "{a,b}", "'", "NULL", "ü€𝄞", "x/y", "a?b", "$1", strings.Repeat("x", 500)} {
				id := actionID(fmt.Sprint("run", i), name)
				create(t, r, id)
				keys = append(keys, rowKey{"proj", "dev", id.GetRun().GetName(), name})
			}
			require.NoError(t, r.db.Exec(everyColumn, "plain").Error)
			rows, err := r.joint.read(t.Context(), keys)
			require.NoError(t, err)
			assert.Len(t, rows, len(keys)-1)
			for _, key := range keys[1:] {
				assert.Equal(t, get(t, r, actionID(key.run, key.name)), rows[key])
			}
			assert.Equal(t, "s19", rows[keys[1]].CreatedBySubject.String)
		})
	}
}

// Nobody shall wait for somebody else's large row, whatever makes it large.
func TestLargeRowsAreNotReadInCommon(t *testing.T) {
	r := newTestRepo(t)
	columns := []string{"action_spec", "action_details", "detailed_info", "run_spec"}
	var keys []rowKey
	for _, column := range columns {
		for name, size := range map[string]int{"small": jointRowBytes, "large": jointRowBytes + 1} {
			id := actionID("run", name+column)
			create(t, r, id)
			// Not to be compressed, and so kept elsewhere.
			require.NoError(t, r.db.Exec("UPDATE actions SET "+column+` = (SELECT substr(string_agg(sha512(i::text::bytea), ''::bytea), 1, ?)
				FROM generate_series(1, 1000) AS i) WHERE name = ?`, size, id.GetName()).Error)
			keys = append(keys, rowKey{"proj", "dev", "run", id.GetName()})
		}
	}
	create(t, r, actionID("run", "both"))
	require.NoError(t, r.db.Exec("UPDATE actions SET action_spec = ?, run_spec = ? WHERE name = 'both'", make([]byte, jointRowBytes), make([]byte, 1)).Error)
	rows, err := r.joint.read(t.Context(), append(keys, rowKey{"proj", "dev", "run", "both"}))
	require.NoError(t, err)
	assert.Len(t, rows, len(columns))
	for key := range rows {
		assert.Contains(t, key.name, "small")
	}
}

// There is one statement, however many rows it reads, and its cost is theirs: before the table is analyzed, as after an installation; when it is; and
// where figures that are wrong make it seem quick to look through the table until the row is met.
func TestTheJointStatementDoesNotReadTheTable(t *testing.T) {
	const perRun = 5
	r := newTestRepo(t)
	require.NoError(t, r.db.Exec("ALTER TABLE actions SET (autovacuum_enabled = off)").Error)
	r.sqlDB.SetMaxOpenConns(1) // whose statements and figures are looked at
	require.NoError(t, r.db.Exec(`INSERT INTO actions (project, domain, run_name, name)
		SELECT 'proj', 'dev', 'run' || i / ?, 'a' || i % ? FROM generate_series(0, 49999) AS i`, perRun, perRun).Error)
	looked := func() (rows int) {
		t.Helper()
		require.NoError(t, r.db.Exec("SELECT pg_stat_force_next_flush()").Error)
		require.NoError(t, r.db.Raw("SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'actions'").Scan(&rows).Error)
		return rows
	}
	for _, state := range []struct {
		prepare string
		perRow  int // rows of the table looked at for one that is read
	}{
		{"SELECT 1", perRun}, // by the run, perhaps
		{"ANALYZE actions", 1},
		{"ALTER TABLE actions ALTER run_name SET (n_distinct = 1); ANALYZE actions", 1},
	} {
		_, err := r.sqlDB.ExecContext(t.Context(), state.prepare, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		for n := range 20 { // so often that one plan is made for all values
			var keys []rowKey
			for i := range n + 1 {
				keys = append(keys, rowKey{"proj", "dev", fmt.Sprint("run", 9999-i/perRun), fmt.Sprint("a", i%perRun)})
			}
			before := looked()
			rows, err := r.joint.read(t.Context(), keys)
			require.NoError(t, err)
			require.Len(t, rows, len(keys))
			require.LessOrEqual(t, looked()-before, state.perRow*len(keys), state.prepare)
		}
	}
	var prepared int
	require.NoError(t, r.db.Raw("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%FROM unn'||'est%'").Scan(&prepared).Error)
	assert.Equal(t, 1, prepared)
}
