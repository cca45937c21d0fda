package pgnotify

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The one file that knows where the tests' PostgreSQL is: at PGHOST and PGPORT (localhost, 15432), user and password "postgres".

const databaseTimeout = 30 * time.Second

// testDSN names a database that is the test's own.
func testDSN(t testing.TB) string {
	t.Helper()
	dsn, drop, err := createDatabase()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, drop()) })
	return dsn
}

// DatabaseForExample is testDSN for an example, which has no testing.TB; release drops the database.
func DatabaseForExample() (dsn string, release func()) {
	dsn, drop, err := createDatabase()
	if err != nil {
		panic(err)
	}
	return dsn, func() {
		if err := drop(); err != nil {
			panic(err)
		}
	}
}

// createDatabase makes a database on the tests' server; drop also ends the sessions that are still on it.
func createDatabase() (dsn string, drop func() error, err error) {
	name := "pgnotify_" + strings.ToLower(rand.Text())
	if err := onServer("CREATE DATABASE " + name); err != nil {
		return "", nil, err
	}
	return serverDSN(name), func() error { return onServer("DROP DATABASE " + name + " WITH (FORCE)") }, nil
}

func onServer(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, serverDSN("postgres"))
	if err != nil {
		return fmt.Errorf("the tests' PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

func serverDSN(database string) string {
	host, port := os.Getenv("PGHOST"), os.Getenv("PGPORT")
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "15432"
	}
	return fmt.Sprintf("host=%s port=%s user=postgres password=postgres dbname=%s sslmode=disable", host, port, database)
}
