package impl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// awaitLockWaiter returns when one session of the database waits for a lock.
func awaitLockWaiter(t testing.TB, r *actionRepo) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waiting int
		err := r.db.Raw(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting).Error
		return err == nil && waiting == 1
	}, eventually, poll)
}
