package impl

import (
	"context"
	"database/sql/driver"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/migrations"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const testPatience = 30 * time.Second

func testDbConfig() database.DbConfig {
	port, err := strconv.Atoi(os.Getenv("PGPORT"))
	if err != nil {
		port = 15432
	}
	name := os.Getenv("PGDATABASE")
	if name == "" {
		name = "flyte_runs_test"
	}
	return database.DbConfig{
		MaxIdleConnections: 4,
		MaxOpenConnections: 8,
		Postgres: database.PostgresConfig{
			Host: "localhost", Port: port, DbName: name, User: "postgres", Password: "postgres", ExtraOptions: "sslmode=disable",
		},
	}
}

func setupTestDB(t *testing.T) *sqlx.DB {
	t.Helper()
	cfg := testDbConfig()
	db, err := database.GetDB(context.Background(), &cfg)
	require.NoError(t, err)
	require.NoError(t, migrations.Run(context.Background(), db))
	_, err = db.Exec("TRUNCATE actions")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// newQuietRepo neither listens nor sends: its channels are the test's to read.
func newQuietRepo(db *sqlx.DB) *actionRepo {
	return &actionRepo{
		db:                db,
		runSubscribers:    make(map[chan string]bool),
		actionSubscribers: make(map[chan string]bool),
		runNotifyCh:       make(chan string, 1),
		actionNotifyCh:    make(chan string, 1),
	}
}

func testRun() *common.RunIdentifier {
	return &common.RunIdentifier{Project: "flytesnacks", Domain: "development", Name: "r1"}
}

func createRun(t *testing.T, repo interface {
	CreateAction(ctx context.Context, action *models.Action) (*models.Action, error)
}) *common.ActionIdentifier {
	t.Helper()
	run := testRun()
	_, err := repo.CreateAction(context.Background(), &models.Action{
		Project: run.Project, Domain: run.Domain, RunName: run.Name, Name: rootActionName, Phase: int32(common.ActionPhase_ACTION_PHASE_QUEUED),
	})
	require.NoError(t, err)
	return &common.ActionIdentifier{Run: run, Name: rootActionName}
}

func TestGetRun_Missing(t *testing.T) {
	repo := newQuietRepo(setupTestDB(t))
	_, err := repo.GetRun(context.Background(), testRun())
	assert.ErrorContains(t, err, "run not found")
}

func TestCreateAction_IsIdempotent(t *testing.T) {
	repo := newQuietRepo(setupTestDB(t))
	createRun(t, repo)
	createRun(t, repo)
	run, err := repo.GetRun(context.Background(), testRun())
	require.NoError(t, err)
	assert.Equal(t, "r1", run.RunName)
}

func TestNotifyRunUpdate_Payload(t *testing.T) {
	repo := newQuietRepo(nil)
	repo.notifyRunUpdate(context.Background(), testRun())
	assert.Equal(t, "flytesnacks/development/r1", <-repo.runNotifyCh)
}

func TestNotifyActionUpdate_GivesUpWithItsContext(t *testing.T) {
	repo := newQuietRepo(nil)
	id := &common.ActionIdentifier{Run: testRun(), Name: "n1"}
	repo.notifyActionUpdate(context.Background(), id)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	repo.notifyActionUpdate(ctx, id)
	assert.Len(t, repo.actionNotifyCh, 1)
}

func TestIsConnError(t *testing.T) {
	assert.True(t, isConnError(driver.ErrBadConn))
	assert.False(t, isConnError(errors.New("syntax")))
}

func TestRunNotifyLoop_SendsBothChannels(t *testing.T) {
	db := setupTestDB(t)
	repo := newQuietRepo(db)
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	go repo.runNotifyLoop(conn)

	repo.runNotifyCh <- "a/b/c"
	repo.actionNotifyCh <- "a/b/c/d"
	require.Eventually(t, func() bool {
		return len(repo.runNotifyCh) == 0 && len(repo.actionNotifyCh) == 0
	}, testPatience, 10*time.Millisecond)
}

func TestProcessNotifications_BroadcastsAndDropsWhatDoesNotFit(t *testing.T) {
	repo := newQuietRepo(nil)
	arriving := make(chan *pq.Notification)
	repo.listener = &pq.Listener{Notify: arriving}
	roomy, full := make(chan string, 2), make(chan string)
	repo.runSubscribers[roomy] = true
	repo.runSubscribers[full] = true
	go repo.processNotifications()

	arriving <- nil
	arriving <- &pq.Notification{Channel: "action_updates", Extra: "a/b/c/d"}
	arriving <- &pq.Notification{Channel: "run_updates", Extra: "a/b/c"}
	arriving <- nil // taken once the one before has been offered
	assert.Equal(t, "a/b/c", <-roomy)
	assert.Empty(t, full)
}

func TestWatchRunUpdates_SeesTheChange(t *testing.T) {
	repo, err := NewActionRepo(setupTestDB(t), testDbConfig())
	require.NoError(t, err)
	root := createRun(t, repo)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	updates, errs := make(chan *models.Run, 10), make(chan error, 1)
	go repo.WatchRunUpdates(ctx, root.Run, updates, errs)

	deadline := time.After(testPatience)
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	require.NoError(t, repo.UpdateActionPhase(ctx, root, common.ActionPhase_ACTION_PHASE_SUCCEEDED))
	for {
		select {
		case run := <-updates:
			if run.Phase == int32(common.ActionPhase_ACTION_PHASE_SUCCEEDED) {
				return
			}
		case err := <-errs:
			t.Fatal(err)
		case <-retry.C: // the watcher may have registered after the update
			require.NoError(t, repo.UpdateActionPhase(ctx, root, common.ActionPhase_ACTION_PHASE_SUCCEEDED))
		case <-deadline:
			t.Fatal("the watcher never saw the run succeed")
		}
	}
}
