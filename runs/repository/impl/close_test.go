package impl

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/runs/migrations"
)

func TestRepositoryAggregate(t *testing.T) {
	config := testDbConfig(t)
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()

	repo, err := NewRepository(db, config)
	require.NoError(t, err)
	assert.Same(t, repo.ActionRepo(), repo.ActionRepo())
	var closing sync.WaitGroup
	for range 5 {
		closing.Go(func() { assert.NoError(t, repo.Close(t.Context())) })
	}
	closing.Wait()
	require.NoError(t, repo.Close(t.Context()))
	require.NoError(t, pool.PingContext(t.Context()), "the handle is the caller's")

	// A write that comes too late is written, and waits for nobody.
	create(t, repo.actions, actionID("run", rootActionName))
}

func TestCloseWithTheServerFrozenKeepsItsDeadline(t *testing.T) {
	server := dbtest.StartServer(t)
	config := server.Config()
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	pool, err := db.DB()
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	r, err := newActionRepo(db, config)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.listener.Ping() == nil }, eventually, poll)

	server.Pause()
	defer server.Resume()
	for i := range 20 {
		require.NoError(t, r.NotifyStateUpdate(t.Context(), actionID("run", fmt.Sprint("a", i))))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	err = r.Close(ctx)
	require.ErrorContains(t, err, "pump: ")
	require.ErrorContains(t, err, " notifications ")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(start), 5*time.Second)
	assert.Equal(t, err, r.Close(t.Context()), "closing again tells the same")
	require.NoError(t, r.listener.Close(t.Context()))
	<-r.fanoutStopped
}

func TestStartAndCloseWithTheServerDown(t *testing.T) {
	server := dbtest.StartServer(t)
	config := server.Config()
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	server.Stop(dbtest.Fast)

	r, err := newActionRepo(db, config)
	require.NoError(t, err)
	require.Error(t, r.listener.Ping())
	require.Error(t, r.UpdateActionPhase(t.Context(), actionID("run", "a1"), running, 1, 0, nil, nil))

	// It comes to life with the server.
	server.Start()
	require.Eventually(t, func() bool { return r.listener.Ping() == nil }, eventually, poll)
	require.NoError(t, r.Close(t.Context()))
}
