//go:build unix

package dbtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

func query[T any](t *testing.T, dsn, sql string) (value T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	require.NoError(t, conn.QueryRow(ctx, sql).Scan(&value))
	return value
}

func TestEveryTestGetsADatabaseOfItsOwnThatIsGoneAfterIt(t *testing.T) {
	var inside string
	t.Run("inside", func(t *testing.T) {
		dsn := DSN(t)
		inside = query[string](t, dsn, "SELECT current_database()::text")
		require.NotEqual(t, inside, query[string](t, DSN(t), "SELECT current_database()::text"))
	})
	require.Zero(t, query[int](t, DSN(t), "SELECT count(*) FROM pg_database WHERE datname = '"+inside+"'"))
}

func TestPrivateServerKeepsDataAndPortOverRestarts(t *testing.T) {
	for name, mode := range map[string]Mode{"fast": Fast, "immediate": Immediate} {
		t.Run(name, func(t *testing.T) {
			server := StartServer(t, WithSettings(map[string]string{"max_connections": "17"}))
			require.Equal(t, "17", query[string](t, server.DSN(), "SHOW max_connections"))
			query[int](t, server.DSN(), "WITH made AS (SELECT 1) SELECT count(*) FROM made")
			execute(t, t.Context(), server.Config().Postgres, "CREATE TABLE kept (id int)")
			port, pid := server.Port(), server.PID()
			server.Restart(mode)
			require.Equal(t, port, server.Port())
			require.NotEqual(t, pid, server.PID())
			require.Zero(t, query[int](t, server.DSN(), "SELECT count(*) FROM kept"))
		})
	}
}

func TestPausedServerAnswersAgainAfterResume(t *testing.T) {
	server := StartServer(t)
	conn, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()

	server.Pause()
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(t.Context()) }()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	server.Resume()
	select {
	case err := <-answered:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("a resumed server does not answer")
	}
}
