//go:build unix

package dbtest

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestStandbyFollowsRefusesWritesAndTakesThemOncePromoted(t *testing.T) {
	primary := StartServer(t)
	standby := primary.Standby(t)
	execute(t, t.Context(), primary.Config().Postgres, "CREATE TABLE kept (id int)")
	require.Eventually(t, func() bool {
		return query[bool](t, standby.DSN(), "SELECT to_regclass('kept') IS NOT NULL")
	}, 30*time.Second, 50*time.Millisecond)

	conn, err := pgx.Connect(t.Context(), standby.DSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), "SELECT pg_notify('channel', 'payload')")
	var refused *pgconn.PgError
	require.True(t, errors.As(err, &refused), "%v", err)
	require.Equal(t, "25006", refused.Code)

	primary.Stop(Immediate)
	standby.Promote()
	_, err = conn.Exec(t.Context(), "SELECT pg_notify('channel', 'payload')")
	require.NoError(t, err)
}
