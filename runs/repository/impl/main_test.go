package impl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/migrations"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const (
	// eventually bounds every wait for something that must happen; generous, for machines under load.
	eventually = 30 * time.Second
	// poll is the pause between two looks.
	poll = 5 * time.Millisecond
)

// testDbConfig is a migrated database of the test's own: on localhost:15432 (postgres/postgres) when a server is there, else on one that this
// test process starts.
func testDbConfig(t testing.TB) database.DbConfig {
	t.Helper()
	config := dbtest.Config(t)
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	pool, err := db.DB()
	require.NoError(t, err)
	require.NoError(t, pool.Close())
	return config
}

// newTestRepo returns a repository on a database of its own, listening already.
func newTestRepo(t testing.TB, options ...Option) *actionRepo {
	t.Helper()
	return openTestRepo(t, testDbConfig(t), options...)
}

func openTestRepo(t testing.TB, config database.DbConfig, options ...Option) *actionRepo {
	t.Helper()
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })

	r, err := newActionRepo(db, config, options...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventually)
		defer cancel()
		require.NoError(t, r.Close(ctx))
	})
	require.Eventually(t, func() bool { return r.listener.Ready() == nil }, eventually, poll, "listener is not ready")
	return r
}

// ear is a session of its own that listens on both channels, as some other replica would.
type ear struct {
	t    testing.TB
	conn *pgx.Conn
}

func newEar(t testing.TB, dsn string) *ear {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, channel := range []string{runUpdatesChannel, actionUpdatesChannel} {
		_, err := conn.Exec(t.Context(), "LISTEN "+channel)
		require.NoError(t, err)
	}
	return &ear{t: t, conn: conn}
}

// next waits for the next notification and returns it as "channel payload".
func (e *ear) next() string {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), eventually)
	defer cancel()
	n, err := e.conn.WaitForNotification(ctx)
	require.NoError(e.t, err)
	return n.Channel + " " + n.Payload
}

// nextN waits for n notifications and counts each.
func (e *ear) nextN(n int) map[string]int {
	e.t.Helper()
	heard := make(map[string]int)
	for range n {
		heard[e.next()]++
	}
	return heard
}

// silent proves that r has sent nothing that is not yet heard: what is sent last comes last.
func (e *ear) silent(r *actionRepo) {
	e.t.Helper()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	r.announce(e.t.Context(), actionUpdatesChannel, marker)
	require.Equal(e.t, actionUpdatesChannel+" "+marker, e.next())
}

// logged collects the log until the end of the test.
func logged(t testing.TB) func() string {
	t.Helper()
	var out lockedBuffer
	require.NoError(t, logger.Setup(logger.Config{Level: logger.LevelDebug}, &out))
	t.Cleanup(func() { require.NoError(t, logger.Setup(logger.DefaultConfig(), os.Stderr)) })
	return out.String
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func runID(name string) *common.RunIdentifier {
	return &common.RunIdentifier{Org: "org", Project: "proj", Domain: "dev", Name: name}
}

func actionID(run, name string) *common.ActionIdentifier {
	return &common.ActionIdentifier{Run: runID(run), Name: name}
}

// create inserts an action, a child of a0 unless it is a0, as changed by the given functions.
func create(t testing.TB, r *actionRepo, id *common.ActionIdentifier, change ...func(*models.Action)) *models.Action {
	t.Helper()
	action := models.NewActionModel(id)
	if id.GetName() != rootActionName {
		action.ParentActionName.String, action.ParentActionName.Valid = rootActionName, true
	}
	for _, c := range change {
		c(action)
	}
	created, err := r.CreateAction(t.Context(), action, false)
	require.NoError(t, err)
	return created
}

func get(t testing.TB, r *actionRepo, id *common.ActionIdentifier) *models.Action {
	t.Helper()
	action, err := r.GetAction(t.Context(), id)
	require.NoError(t, err)
	return action
}

// newRoot is a run that is not yet created.
func newRoot(run string) *models.Action { return models.NewActionModel(actionID(run, rootActionName)) }
