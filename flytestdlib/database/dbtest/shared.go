//go:build unix

package dbtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
)

// SharedPort is where a server for all test processes of the machine is looked for.
const SharedPort = 15432

// setupTimeout bounds the creation and the removal of one test's database; generous, for machines under load.
const setupTimeout = 60 * time.Second

// shared is the server of this process, found or started at the first use.
var shared struct {
	once   sync.Once
	admin  database.PostgresConfig
	server *embedded.Server // nil when an existing one is used
	err    error
}

func adminConfig(ctx context.Context) (database.PostgresConfig, error) {
	shared.once.Do(func() {
		found := database.PostgresConfig{
			Host: "localhost", Port: SharedPort, DbName: "postgres", User: "postgres", Password: "postgres", ExtraOptions: "sslmode=disable",
		}
		if conn, err := connect(ctx, found); err == nil {
			shared.admin = found
			shared.err = conn.Close(ctx)
			return
		}
		shared.server, shared.err = embedded.Start(ctx, embedded.Config{},
			embedded.Ephemeral(), embedded.WithSettings(map[string]string{"max_connections": "300"}))
		if shared.err == nil {
			shared.admin = shared.server.Postgres("postgres")
		}
	})
	return shared.admin, shared.err
}

func connect(ctx context.Context, config database.PostgresConfig) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	return pgx.Connect(ctx, database.GetPostgresDsn(ctx, config))
}

// Config returns the configuration of a fresh database with the service's default pool limits. The database is dropped when the test
// ends, with whatever connections it still has.
func Config(t testing.TB) database.DbConfig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	admin, err := adminConfig(ctx)
	if err != nil {
		t.Fatalf("server for tests: %v", err)
	}
	return database.DbConfig{Postgres: freshDatabase(t, admin)}.WithDefaults()
}

// DSN returns the connection string of a fresh database, in keyword form. The database is dropped when the test ends, with whatever
// connections it still has.
func DSN(t testing.TB) string {
	t.Helper()
	return database.GetPostgresDsn(t.Context(), Config(t).Postgres)
}

var databaseCount atomic.Int64

// freshDatabase creates a database named after this process, and drops it at the end of the test.
func freshDatabase(t testing.TB, admin database.PostgresConfig) database.PostgresConfig {
	t.Helper()
	fresh := admin
	fresh.DbName = fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), databaseCount.Add(1))
	// template0, since nobody may be connected to the template, and people do connect to template1.
	execute(t, t.Context(), admin, "CREATE DATABASE "+fresh.DbName+" TEMPLATE template0")
	t.Cleanup(func() {
		execute(t, context.WithoutCancel(t.Context()), admin, "DROP DATABASE IF EXISTS "+fresh.DbName+" WITH (FORCE)")
	})
	return fresh
}

func execute(t testing.TB, ctx context.Context, config database.PostgresConfig, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	conn, err := connect(ctx, config)
	if err != nil {
		t.Errorf("%s: %v", sql, err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// Main runs the tests of a package, stops the server that was started for them, fails on leaked goroutines, and exits. Each ignored
// goroutine wants its reason beside the option that ignores it.
func Main(m *testing.M, ignored ...goleak.Option) {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(ignored...); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines left behind: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}
