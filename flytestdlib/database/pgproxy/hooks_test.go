package pgproxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

func hasPrefix(prefix string) func(pgproxy.Statement) bool {
	return func(s pgproxy.Statement) bool { return strings.HasPrefix(s.SQL, prefix) }
}

func TestHoldBack(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	conn := connect(t, p.DSN(dsn), "listener")
	remove := p.HoldBack(hasPrefix("LISTEN"), 300*time.Millisecond)
	begin := time.Now()
	_, err := conn.Exec(testContext(t), "LISTEN news")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(begin), 300*time.Millisecond)
	remove()
	remove()
	begin = time.Now()
	_, err = conn.Exec(testContext(t), "LISTEN news")
	require.NoError(t, err)
	assert.Less(t, time.Since(begin), 300*time.Millisecond)
}

func TestHoldBackInThePipeline(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	conn := connect(t, p.DSN(dsn), "pipeline")
	defer p.HoldBack(hasPrefix("SELECT 2"), 300*time.Millisecond)()
	ctx := testContext(t)
	batch := &pgx.Batch{}
	batch.Queue("SELECT 1")
	batch.Queue("SELECT 2")
	batch.Queue("SELECT 3")
	begin := time.Now()
	results := conn.SendBatch(ctx, batch)
	for want := 1; want <= 3; want++ {
		var got int
		require.NoError(t, results.QueryRow().Scan(&got))
		assert.Equal(t, want, got)
	}
	require.NoError(t, results.Close())
	assert.GreaterOrEqual(t, time.Since(begin), 300*time.Millisecond)
}

func TestHeldConnectionCanBeCut(t *testing.T) {
	p, dsn := start(t, pgproxy.Options{})
	conn := connect(t, p.DSN(dsn), "listener")
	p.HoldBack(func(s pgproxy.Statement) bool {
		if strings.HasPrefix(s.SQL, "LISTEN") {
			go p.CutAll()
			return true
		}
		return false
	}, time.Hour)
	_, err := conn.Exec(testContext(t), "LISTEN news")
	require.Error(t, err)
}

func TestCutBeforeReply(t *testing.T) {
	for name, args := range map[string][]any{
		"simple":   {pgx.QueryExecModeSimpleProtocol, 1},
		"extended": {pgx.QueryExecModeExec, 1},
		"prepared": {pgx.QueryExecModeCacheStatement, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, dsn := start(t, pgproxy.Options{RTT: time.Millisecond})
			ctx := testContext(t)
			direct := connect(t, dsn, "operator")
			_, err := direct.Exec(ctx, "CREATE TABLE kept (v int)")
			require.NoError(t, err)
			conn := connect(t, p.DSN(dsn), "writer")
			cut := p.CutBeforeReply(hasPrefix("INSERT"))
			selectOne(t, conn) // does not match
			_, err = conn.Exec(ctx, "INSERT INTO kept VALUES ($1)", args...)
			require.Error(t, err)
			select {
			case <-cut:
			case <-ctx.Done():
				t.Fatal("the cut was not announced")
			}
			var rows int
			require.NoError(t, direct.QueryRow(ctx, "SELECT count(*) FROM kept").Scan(&rows))
			assert.Equal(t, 1, rows, "committed all the same")

			again := connect(t, p.DSN(dsn), "writer") // once only
			_, err = again.Exec(ctx, "INSERT INTO kept VALUES ($1)", args...)
			require.NoError(t, err)
		})
	}
}
