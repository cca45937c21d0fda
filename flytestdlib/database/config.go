package database

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The values that WithDefaults puts in place of zeros.
const (
	DefaultMaxIdleConnections = 10
	DefaultMaxOpenConnections = 100
	DefaultConnMaxLifeTime    = time.Hour
	DefaultPort               = 5432
	DefaultHost               = "localhost"
	DefaultDbName             = "flyte"
	DefaultUser               = "postgres"
	DefaultExtraOptions       = "sslmode=disable"
)

// maxConnections is PostgreSQL's own ceiling for max_connections (MAX_BACKENDS, 2^18-1): a pool limit above it is a typing error.
const maxConnections = 262143

// DbConfig says which database to open and how many connections this process may hold on it.
//
// MaxOpenConnections counts per process: replicas × MaxOpenConnections, plus two per replica for the notify pump and listener, must
// stay below the server's max_connections.
type DbConfig struct {
	MaxIdleConnections int            `mapstructure:"maxIdleConnections" desc:"connections kept open while unused; at most maxOpenConnections"`
	MaxOpenConnections int            `mapstructure:"maxOpenConnections" desc:"most connections this process opens at a time; further requests wait for one"`
	ConnMaxLifeTime    time.Duration  `mapstructure:"connMaxLifeTime" desc:"age at which a connection is replaced by a new one (duration, e.g. 1h)"`
	Postgres           PostgresConfig `mapstructure:"postgres"`
}

// PostgresConfig addresses one PostgreSQL database.
type PostgresConfig struct {
	Host            string `mapstructure:"host" desc:"host name, address or unix socket folder of the server"`
	ReadReplicaHost string `mapstructure:"readReplicaHost" desc:"host of a read replica with the same port, database and credentials; empty: none"`
	Port            int    `mapstructure:"port" desc:"TCP port of the server (1 to 65535)"`
	DbName          string `mapstructure:"dbname" desc:"database name; created when it is missing"`
	User            string `mapstructure:"username" desc:"role to connect as"`
	Password        string `mapstructure:"password" desc:"password of the role; passwordPath keeps it out of files and process lists"`
	PasswordPath    string `mapstructure:"passwordPath" desc:"file that holds the password (surrounding white space is cut off); takes the place of password"`
	ExtraOptions    string `mapstructure:"options" desc:"further connection parameters as key=value pairs separated by spaces, e.g. sslmode=verify-full"`
	Debug           bool   `mapstructure:"debug" desc:"log every SQL statement, with its values, at debug level"`
}

// DefaultDbConfig returns the configuration used where nothing is set: database flyte on localhost:5432.
func DefaultDbConfig() DbConfig {
	return DbConfig{}.WithDefaults()
}

// WithDefaults returns a copy in which every zero value that has a default is replaced by it.
// An idle limit left unset never exceeds the open limit that was set.
func (c DbConfig) WithDefaults() DbConfig {
	if c.MaxOpenConnections == 0 {
		c.MaxOpenConnections = DefaultMaxOpenConnections
	}
	if c.MaxIdleConnections == 0 {
		c.MaxIdleConnections = min(DefaultMaxIdleConnections, c.MaxOpenConnections)
	}
	if c.ConnMaxLifeTime == 0 {
		c.ConnMaxLifeTime = DefaultConnMaxLifeTime
	}
	c.Postgres = c.Postgres.WithDefaults()
	return c
}

// WithDefaults returns a copy in which every zero value that has a default is replaced by it.
func (c PostgresConfig) WithDefaults() PostgresConfig {
	if c.Host == "" {
		c.Host = DefaultHost
	}
	if c.Port == 0 {
		c.Port = DefaultPort
	}
	if c.DbName == "" {
		c.DbName = DefaultDbName
	}
	if c.User == "" {
		c.User = DefaultUser
	}
	if c.ExtraOptions == "" {
		c.ExtraOptions = DefaultExtraOptions
	}
	return c
}

// Validate checks bounds after defaults; the error names the field and the bound, and holds no secret.
func (c DbConfig) Validate() error {
	switch {
	case c.MaxOpenConnections < 1 || c.MaxOpenConnections > maxConnections:
		return fmt.Errorf("maxOpenConnections: %d is not within 1 to %d", c.MaxOpenConnections, maxConnections)
	case c.MaxIdleConnections < 1 || c.MaxIdleConnections > c.MaxOpenConnections:
		return fmt.Errorf("maxIdleConnections: %d is not within 1 to maxOpenConnections (%d)", c.MaxIdleConnections, c.MaxOpenConnections)
	case c.ConnMaxLifeTime < time.Second:
		return fmt.Errorf("connMaxLifeTime: %s is below 1s", c.ConnMaxLifeTime)
	}
	if err := c.Postgres.Validate(); err != nil {
		return fmt.Errorf("postgres.%w", err)
	}
	return nil
}

// Validate checks bounds after defaults; the error names the field and the bound, and holds no secret.
func (c PostgresConfig) Validate() error {
	switch {
	case c.Host == "":
		return fmt.Errorf("host: must not be empty")
	case c.Port < 1 || c.Port > 65535:
		return fmt.Errorf("port: %d is not within 1 to 65535", c.Port)
	case c.DbName == "" || len(c.DbName) > 63:
		return fmt.Errorf("dbname: %q is not 1 to 63 bytes long", c.DbName)
	case c.User == "" || len(c.User) > 63:
		return fmt.Errorf("username: %q is not 1 to 63 bytes long", c.User)
	case c.Password != "" && c.PasswordPath != "":
		return fmt.Errorf("passwordPath: must be empty when password is set")
	}
	// The options are parsed with neither password nor password file, so that whatever the parser quotes back is not secret.
	if _, err := pgx.ParseConfig(formatDsn(c, c.Host, "")); err != nil {
		return fmt.Errorf("options: %w", withoutSecret(err, ""))
	}
	return nil
}
