package impl

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

func TestNotify_NeverWaitsAndFoldsRepeats(t *testing.T) {
	repo := &actionRepo{notifyPump: newNotifyPump()} // nobody sends
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 3 {
		for i := range 10_000 {
			repo.notifyActionUpdate(gone, notifyAction(i))
		}
		repo.notifyRunUpdate(gone, notifyRun)
	}
	actions, runs := repo.notifyPump.Stats(notifyChannelActions), repo.notifyPump.Stats(notifyChannelRuns)
	assert.Equal(t, 10_000, actions.Pending)
	assert.EqualValues(t, 20_000, actions.Coalesced)
	assert.Equal(t, 1, runs.Pending)
	assert.Equal(t, []string{"flytesnacks/development/r1"}, payloads(repo.notifyPump.Take(notifyChannelRuns)))
	assert.Equal(t, "flytesnacks/development/r1/n0", payloads(repo.notifyPump.Take(notifyChannelActions))[0])
}

func payloads(batch pgnotify.Batch) []string {
	var all []string
	for _, entry := range batch.Entries {
		all = append(all, entry.Payload)
	}
	return all
}

// startLoop runs the repository's loop until the end of the test.
func startLoop(t *testing.T, repo *actionRepo, config database.DbConfig) *pgnotify.Sender {
	t.Helper()
	sender, err := pgnotify.NewSender(pgnotify.SenderConfig{DSN: database.GetPostgresDsn(context.Background(), config.Postgres)})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		repo.runNotifyLoop(sender)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyPatience)
		defer cancel()
		left, err := repo.notifyPump.Close(ctx)
		assert.NoError(t, err)
		assert.Zero(t, left)
		<-ended
		assert.NoError(t, sender.Close())
	})
	return sender
}

func TestNotifyLoop_OneRoundTripForAThousand(t *testing.T) {
	_, config := notifyDatabase(t)
	hearing, ctx := connectTo(t, config.Postgres)
	_, err := hearing.Exec(ctx, "LISTEN action_updates")
	require.NoError(t, err)

	repo := &actionRepo{notifyPump: newNotifyPump()}
	for i := range 1000 {
		repo.notifyActionUpdate(ctx, notifyAction(i))
	}
	sender := startLoop(t, repo, config)
	for i := range 1000 {
		heard, err := hearing.WaitForNotification(ctx)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("flytesnacks/development/r1/n%d", i), heard.Payload)
	}
	// It is counted when the server's answer is there, which may be after the notifications.
	require.Eventually(t, func() bool { return sender.Stats().Statements > 0 }, notifyPatience, time.Millisecond)
	assert.EqualValues(t, 1, sender.Stats().Statements)
}

func TestNotifyLoop_SurvivesAKilledBackend(t *testing.T) {
	db, config := notifyDatabase(t)
	hearing, ctx := connectTo(t, config.Postgres)
	_, err := hearing.Exec(ctx, "LISTEN run_updates")
	require.NoError(t, err)
	repo := &actionRepo{notifyPump: newNotifyPump()}
	startLoop(t, repo, config)

	for range 3 {
		repo.notifyRunUpdate(ctx, notifyRun)
		heard, err := hearing.WaitForNotification(ctx)
		require.NoError(t, err)
		assert.Equal(t, "flytesnacks/development/r1", heard.Payload)
		killBackends(t, db, "notify-pump")
	}
}
