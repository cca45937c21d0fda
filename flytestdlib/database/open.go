package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

const (
	// openTimeout bounds GetDB as a whole, the creation of the database included.
	openTimeout = 60 * time.Second
	// dialTimeout bounds one attempt to connect, now and later in the pool, unless the options say connect_timeout.
	dialTimeout = 10 * time.Second
	// connMaxIdleTime gives back to the server what a burst has opened and nobody has used since.
	connMaxIdleTime = 5 * time.Minute
)

// GetDB opens the connection pool on config's database, creates the database when it is missing, and returns when a connection works,
// within a minute. Zero values in config mean the defaults. Several processes may do this at once on an empty server.
//
// The caller closes the pool: Close on what DB() of the result returns.
func GetDB(ctx context.Context, config *DbConfig) (*gorm.DB, error) {
	return open(ctx, config.WithDefaults(), func(c PostgresConfig) string { return c.Host }, createIfMissing)
}

// GetReadOnlyDB is GetDB on the read replica. It creates nothing.
func GetReadOnlyDB(ctx context.Context, config *DbConfig) (*gorm.DB, error) {
	if config.Postgres.ReadReplicaHost == "" {
		return nil, errors.New("database: postgres.readReplicaHost: no read replica is configured")
	}
	mustExist := func(context.Context, *pgx.ConnConfig) error { return nil }
	return open(ctx, config.WithDefaults(), func(c PostgresConfig) string { return c.ReadReplicaHost }, mustExist)
}

func open(
	ctx context.Context, config DbConfig, hostOf func(PostgresConfig) string, ensure func(context.Context, *pgx.ConnConfig) error,
) (*gorm.DB, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	conn, err := connConfig(config.Postgres, hostOf(config.Postgres))
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	name := fmt.Sprintf("database %s on %s:%d", conn.Database, conn.Host, conn.Port)
	limit := fmt.Errorf("%s: open: not ready within %s: %w", name, openTimeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, limit)
	defer cancel()

	if err := ensure(ctx, conn); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	pool := stdlib.OpenDB(*conn)
	pool.SetMaxOpenConns(config.MaxOpenConnections)
	pool.SetMaxIdleConns(config.MaxIdleConnections)
	pool.SetConnMaxLifetime(config.ConnMaxLifeTime)
	pool.SetConnMaxIdleTime(connMaxIdleTime)
	if err := pool.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, causeOr(ctx, err)), pool.Close())
	}
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: pool}), &gorm.Config{
		Logger:               gormLogger{statements: config.Postgres.Debug},
		DisableAutomaticPing: true, // done above, with a deadline
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), pool.Close())
	}
	return db, nil
}

// connConfig parses everything but the password, which is put in afterwards: the parser's errors quote what they were given.
func connConfig(config PostgresConfig, host string) (*pgx.ConnConfig, error) {
	password, err := config.resolvePassword()
	if err != nil {
		return nil, fmt.Errorf("postgres.%w", err)
	}
	conn, err := pgx.ParseConfig(formatDsn(config, host, ""))
	if err != nil {
		return nil, fmt.Errorf("postgres.options: %w", err)
	}
	if password != "" { // else the driver may have found one in ~/.pgpass
		conn.Password = password
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = dialTimeout
	}
	return conn, nil
}

// causeOr prefers our named limit to the bare deadline error of whoever ran into it.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
