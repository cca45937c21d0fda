//go:build unix

package database_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// asReplica has the test program open and migrate the database of that name, as a replica that starts would.
const asReplica = "DATABASE_TEST_AS_REPLICA"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(asReplica); dsn != "" {
		os.Exit(replica())
	}
	dbtest.Main(m)
}

// open opens the pool and closes it at the end of the test.
func open(t *testing.T, config database.DbConfig) *gorm.DB {
	t.Helper()
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	t.Cleanup(func() { closePool(t, db) })
	return db
}

func closePool(t testing.TB, db *gorm.DB) {
	t.Helper()
	pool, err := db.DB()
	require.NoError(t, err)
	require.NoError(t, pool.Close())
}

// missing returns the configuration of a database that does not exist, and drops it at the end.
func missing(t *testing.T, name string) database.DbConfig {
	t.Helper()
	config := dbtest.Config(t)
	admin := config
	config.Postgres.DbName = config.Postgres.DbName + name
	t.Cleanup(func() {
		db, err := database.GetDB(context.WithoutCancel(t.Context()), &admin)
		require.NoError(t, err)
		defer closePool(t, db)
		require.NoError(t, db.Exec(`DROP DATABASE IF EXISTS "`+strings.ReplaceAll(config.Postgres.DbName, `"`, `""`)+`" WITH (FORCE)`).Error)
	})
	return config
}

func TestGetDBHasTheConfiguredLimits(t *testing.T) {
	config := dbtest.Config(t)
	config.MaxOpenConnections, config.MaxIdleConnections, config.ConnMaxLifeTime = 2, 1, time.Second
	db := open(t, config)
	pool, err := db.DB()
	require.NoError(t, err)
	require.Equal(t, 2, pool.Stats().MaxOpenConnections)

	first, err := pool.Conn(t.Context())
	require.NoError(t, err)
	second, err := pool.Conn(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	require.Equal(t, 1, pool.Stats().Idle)
	require.Eventually(t, func() bool { return pool.Stats().MaxLifetimeClosed > 0 }, 30*time.Second, 20*time.Millisecond)
	require.NoError(t, db.Exec("SELECT 1").Error)
}

func TestGetDBCreatesAMissingDatabase(t *testing.T) {
	config := missing(t, ` with "quotes" and 'more'; -- `)
	var name string
	require.NoError(t, open(t, config).Raw("SELECT current_database()").Scan(&name).Error)
	require.Equal(t, config.Postgres.DbName, name)
	open(t, config)
}

func TestGetDBFromManyAtOnceOnAMissingDatabase(t *testing.T) {
	config := missing(t, "_shared")
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			db, err := database.GetDB(t.Context(), &config)
			if err != nil {
				return err
			}
			defer closePool(t, db)
			return db.Exec("SELECT 1").Error
		})
	}
	require.NoError(t, group.Wait())
}

func TestGetDBErrorsNameTheDatabaseAndNotThePassword(t *testing.T) {
	t.Run("wrong password", func(t *testing.T) {
		config := dbtest.Config(t)
		config.Postgres.Password = "it's the wrong secret"
		_, err := database.GetDB(t.Context(), &config)
		require.ErrorContains(t, err, fmt.Sprintf("database %s on %s:%d", config.Postgres.DbName, config.Postgres.Host, config.Postgres.Port))
		require.ErrorContains(t, err, "password authentication failed")
		require.NotContains(t, err.Error(), "secret")
	})
	t.Run("nobody listens", func(t *testing.T) {
		_, err := database.GetDB(t.Context(), &database.DbConfig{Postgres: database.PostgresConfig{Host: "127.0.0.1", Port: 1, Password: "secret"}})
		require.ErrorContains(t, err, "database flyte on 127.0.0.1:1")
		require.NotContains(t, err.Error(), "secret")
	})
	t.Run("may not create", func(t *testing.T) {
		config := missing(t, "_denied")
		admin := open(t, dbtest.Config(t))
		role := config.Postgres.DbName
		require.NoError(t, admin.Exec(`CREATE ROLE "`+role+`" LOGIN PASSWORD 'secret'`).Error)
		t.Cleanup(func() { require.NoError(t, admin.WithContext(context.Background()).Exec(`DROP ROLE "`+role+`"`).Error) })
		config.Postgres.User, config.Postgres.Password = role, "secret"
		_, err := database.GetDB(t.Context(), &config)
		require.ErrorContains(t, err, "is missing; create it: ERROR: permission denied to create database")
	})
	t.Run("out of bounds", func(t *testing.T) {
		_, err := database.GetDB(t.Context(), &database.DbConfig{MaxOpenConnections: -1})
		require.ErrorContains(t, err, "database: maxOpenConnections: -1")
	})
}

func TestGetDBDoesNotWaitForASilentServer(t *testing.T) {
	silent, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	config := database.DbConfig{Postgres: database.PostgresConfig{
		Host: "127.0.0.1", Port: silent.Addr().(*net.TCPAddr).Port, ExtraOptions: "sslmode=disable connect_timeout=1",
	}}
	_, err = database.GetDB(t.Context(), &config)
	require.ErrorContains(t, err, "timeout")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	config.Postgres.ExtraOptions = ""
	_, err = database.GetDB(ctx, &config)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestReadReplica(t *testing.T) {
	config := dbtest.Config(t)
	_, err := database.GetReadOnlyDB(t.Context(), &config)
	require.ErrorContains(t, err, "postgres.readReplicaHost: no read replica is configured")

	config.Postgres.ReadReplicaHost, config.Postgres.Host = config.Postgres.Host, "primary.invalid"
	db, err := database.GetReadOnlyDB(t.Context(), &config)
	require.NoError(t, err)
	closePool(t, db)

	config.Postgres.DbName += "_missing"
	_, err = database.GetReadOnlyDB(t.Context(), &config)
	require.ErrorContains(t, err, "does not exist")
}

// captureLog sends the log to the returned function's result until the end of the test.
func captureLog(t *testing.T) func() string {
	t.Helper()
	var mu sync.Mutex
	var lines bytes.Buffer
	writer := writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return lines.Write(p)
	})
	require.NoError(t, logger.Setup(logger.Config{Level: logger.LevelDebug, Format: logger.FormatText}, writer))
	t.Cleanup(func() { require.NoError(t, logger.Setup(logger.DefaultConfig(), os.Stderr)) })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return lines.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestStatementsAreLoggedOnRequestOnly(t *testing.T) {
	logger.Flush()
	logged := captureLog(t)
	config := dbtest.Config(t)
	quiet := open(t, config)
	require.NoError(t, quiet.Exec("SELECT ?::text", "quiet value").Error)
	require.NotContains(t, logged(), "SELECT")

	// A slow statement is worth a line, without the values.
	require.NoError(t, quiet.Exec("SELECT pg_sleep(1.1), ?::text", "quiet value").Error)
	logger.Flush()
	require.Contains(t, logged(), "slow statement: ")
	require.Contains(t, logged(), "rows: SELECT pg_sleep(1.1), $1::text")
	require.NotContains(t, logged(), "quiet value")

	// Many are not worth many, also when they fail.
	ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
	defer cancel()
	var group errgroup.Group
	for range 10 {
		group.Go(func() error { return quiet.Exec("SELECT\n\tpg_sleep(1.1)").Error })
		group.Go(func() error {
			if err := quiet.WithContext(ctx).Exec("SELECT pg_sleep(60)").Error; err == nil {
				return errors.New("it was not given up")
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	logger.Flush()
	require.Regexp(t, `slow statement: [\d.]+s, the wait for a connection included, 1 rows: SELECT pg_sleep\(1.1\) \(at .*, and \d more`, logged())
	require.Regexp(t, `slow statement: failed after [\d.]+s, the wait for a connection included: .*: SELECT pg_sleep\(60\) \(at .*, and \d more`, logged())

	config.Postgres.Debug = true
	require.NoError(t, open(t, config).Exec("SELECT ?::text", "loud value").Error)
	require.Contains(t, logged(), "SELECT 'loud value'::text")
	require.NotContains(t, logged(), "password")
}

func replica() int {
	var config database.DbConfig
	if _, err := fmt.Sscanf(os.Getenv(asReplica), "%s %d %s", &config.Postgres.Host, &config.Postgres.Port, &config.Postgres.DbName); err != nil {
		fmt.Println(err)
		return 1
	}
	config.Postgres.Password = "postgres"
	db, err := database.GetDB(context.Background(), &config)
	if err == nil {
		err = database.Migrate(context.Background(), db, twoSteps)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestReplicasThatStartTogetherOnAnEmptyServer(t *testing.T) {
	config := missing(t, "_replicas")
	program, err := os.Executable()
	require.NoError(t, err)
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", asReplica, config.Postgres.Host, config.Postgres.Port, config.Postgres.DbName))
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	requireTwoSteps(t, open(t, config))
}
