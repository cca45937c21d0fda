package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

func TestTheDatabaseIsReadyWhileItTakesWrites(t *testing.T) {
	config := dbtest.Config(t)
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxIdleConns(0) // a setting of the database is for new sessions
	check := databaseCheck(pool)
	set := func(readOnly string) {
		require.NoError(t, db.Exec("SET TRANSACTION READ WRITE; ALTER DATABASE "+config.Postgres.DbName+" SET default_transaction_read_only = "+readOnly).Error)
	}
	require.NoError(t, check(t.Context()))
	set("on")
	require.ErrorContains(t, check(t.Context()), "the server takes no writes")
	set("off")
	require.NoError(t, check(t.Context()))
	require.NoError(t, pool.Close())
	require.Error(t, check(t.Context()))
}

func TestThePumpIsReadyWhileItSendsInTime(t *testing.T) {
	channel := interfaces.NotifyChannelStatus{Channel: "action_updates", Pending: 7, OldestAgeSeconds: 10}
	check := pumpCheck(func() interfaces.NotifyStatus {
		return interfaces.NotifyStatus{Channels: []interfaces.NotifyChannelStatus{{Channel: "run_updates"}, channel}}
	})
	require.NoError(t, check(t.Context()))

	channel.OldestAgeSeconds = 12.3
	require.EqualError(t, check(t.Context()), "action_updates: 7 changes wait to be announced, the first for 12 s: no answer yet")
	channel.Failures, channel.LastError = 3, "notify: connection refused"
	require.EqualError(t, check(t.Context()),
		"action_updates: 7 changes wait to be announced, the first for 12 s: 3 attempts failed: notify: connection refused")

	require.NoError(t, pumpCheck(func() interfaces.NotifyStatus { return interfaces.NotifyStatus{Mode: "off"} })(t.Context()))
}
