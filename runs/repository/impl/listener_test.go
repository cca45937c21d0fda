package impl

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

func TestListenerConnectsAgainAfterItsBackendWasKilled(t *testing.T) {
	r := newTestRepo(t)
	create(t, r, actionID("run", rootActionName))
	w := watchAction(t, r, actionID("run", rootActionName))

	for range 3 {
		var killed int
		require.NoError(t, r.db.Raw(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE '%notify-listener'`).Scan(&killed).Error)
		require.Equal(t, 1, killed)
		require.Eventually(t, func() bool {
			// What is sent while it is away is not heard, so send until one is.
			require.NoError(t, r.NotifyStateUpdate(t.Context(), actionID("run", rootActionName)))
			select {
			case <-w.updates:
				return true
			default:
				return false
			}
		}, eventually, poll)
		require.Eventually(t, func() bool { return r.listener.Ping() == nil }, eventually, poll)
	}
}

// Whoever takes notifications may ping while one is on its way to them.
func TestPingWhileANotificationWaits(t *testing.T) {
	dsn := dbtest.DSN(t)
	l, err := newListener(dsn, actionUpdatesChannel)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.close(context.Background())) }()
	require.Eventually(t, func() bool { return l.Ping() == nil }, eventually, poll)

	sender := newEar(t, dsn)
	for _, payload := range []string{"1", "2", "3"} {
		_, err := sender.conn.Exec(t.Context(), "SELECT pg_notify($1, $2)", actionUpdatesChannel, payload)
		require.NoError(t, err)
		require.NoError(t, l.Ping())
	}
	for _, payload := range []string{"1", "2", "3"} {
		require.NoError(t, l.Ping())
		select {
		case n := <-l.Notify:
			assert.Equal(t, payload, n.Extra)
		case <-time.After(eventually):
			require.Fail(t, "nothing heard")
		}
	}
}

func TestPingTellsWhyThereIsNoConnection(t *testing.T) {
	l, err := newListener("host=127.0.0.1 port=1 user=postgres sslmode=disable", "x")
	require.NoError(t, err)
	err = l.Ping()
	require.ErrorContains(t, err, "not connected")
	require.NoError(t, l.close(t.Context()))
	require.ErrorIs(t, l.Ping(), errListenerClosed)

	_, err = newListener("host=127.0.0.1 port=x", "x")
	require.ErrorContains(t, err, "notify-listener")
	_, err = newSerialPump("host=127.0.0.1 port=x")
	require.ErrorContains(t, err, "notify-pump")
}
