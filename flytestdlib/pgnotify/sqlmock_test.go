package pgnotify

import (
	"database/sql/driver"
	"regexp"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"
	"github.com/stretchr/testify/require"
)

// The statements of a batch, word for word, on a driver that is not pgx: one for each thousand payloads, the channel bound once, the rest of
// the width filled with the last payload.
func TestStatementsOfABatch(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 3: {4}, 1000: {1000}, 1001: {1000, 1}, 1665: {1000, 1000}} {
		db, mock, err := sqlmock.New()
		require.NoError(t, err)
		payloads := numbered(n)
		for i, width := range want {
			args := []driver.Value{"run_updates"}
			for k := range width {
				args = append(args, payloads[min(1000*i+k, n-1)])
			}
			mock.ExpectExec("^" + regexp.QuoteMeta(multiCall(width)) + "$").WithArgs(args...).WillReturnResult(driver.RowsAffected(1))
		}
		sender, err := NewSenderOn(db, SenderConfig{})
		require.NoError(t, err)
		out := sender.Send(t.Context(), batchOf("run_updates", payloads...))
		require.NoError(t, out.Err)
		require.Equal(t, n, out.Delivered())
		mock.ExpectClose()
		require.NoError(t, db.Close())
		require.NoError(t, mock.ExpectationsWereMet())
	}
}
