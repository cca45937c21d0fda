package database

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// The values that WithDefaults puts in place of zeros.
const (
	// DefaultMaxIdleConnections equals the open limit: with fewer, every burst of requests dials connections and drops them again, and
	// dialling (TCP, authentication, a forked backend) costs far more than the statement it is for.
	DefaultMaxIdleConnections = DefaultMaxOpenConnections
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
// An idle limit above the open limit counts as the open limit, so that lowering one does not mean to touch the other.
// MaxOpenConnections counts per process: replicas × MaxOpenConnections, plus two per replica for the notify pump and listener, must
// stay below the server's max_connections.
type DbConfig struct {
	MaxIdleConnections int            `yaml:"maxIdleConnections" desc:"connections kept open while unused; no more than maxOpenConnections"`
	MaxOpenConnections int            `yaml:"maxOpenConnections" desc:"most connections this process opens at a time; further requests wait for one"`
	ConnMaxLifeTime    time.Duration  `yaml:"connMaxLifeTime" desc:"age at which a connection is replaced by a new one (duration, e.g. 1h)"`
	Postgres           PostgresConfig `yaml:"postgres"`
}

// PostgresConfig addresses one PostgreSQL database.
type PostgresConfig struct {
	Host            string `yaml:"host" desc:"host name, address or unix socket folder of the server"`
	ReadReplicaHost string `yaml:"readReplicaHost" desc:"host of a read replica with the same port, database and credentials; empty: none"`
	Port            int    `yaml:"port" desc:"TCP port of the server (1 to 65535)"`
	DbName          string `yaml:"dbname" desc:"database name; created when it is missing"`
	User            string `yaml:"username" desc:"role to connect as"`
	Password        string `yaml:"password" desc:"password of the role; passwordPath keeps it out of files and process lists" secret:"true"`
	PasswordPath    string `yaml:"passwordPath" desc:"file that holds the password (surrounding white space is cut off); takes the place of password"`
	ExtraOptions    string `yaml:"options" desc:"further connection parameters as key=value pairs separated by spaces, e.g. sslmode=verify-full"`
	Debug           bool   `yaml:"debug" desc:"log every SQL statement, with its values, at debug level"`
}

// DefaultDbConfig returns the configuration used where nothing is set: database flyte on localhost:5432.
func DefaultDbConfig() DbConfig {
	return DbConfig{}.WithDefaults()
}

// WithDefaults returns a copy in which every zero value that has a default is replaced by it.
func (c DbConfig) WithDefaults() DbConfig {
	if c.MaxOpenConnections == 0 {
		c.MaxOpenConnections = DefaultMaxOpenConnections
	}
	if c.MaxIdleConnections == 0 {
		c.MaxIdleConnections = DefaultMaxIdleConnections
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

// Validate checks bounds after defaults. The error joins everything that is wrong; each part begins with the field's key, names the
// bound, and holds no secret.
func (c DbConfig) Validate() error {
	var wrong []error
	if c.MaxOpenConnections < 1 || c.MaxOpenConnections > maxConnections {
		wrong = append(wrong, fmt.Errorf("maxOpenConnections: %d is not within 1 to %d", c.MaxOpenConnections, maxConnections))
	}
	if c.MaxIdleConnections < 1 || c.MaxIdleConnections > maxConnections {
		wrong = append(wrong, fmt.Errorf("maxIdleConnections: %d is not within 1 to %d", c.MaxIdleConnections, maxConnections))
	}
	if c.ConnMaxLifeTime < time.Second {
		wrong = append(wrong, fmt.Errorf("connMaxLifeTime: %s is below 1s", c.ConnMaxLifeTime))
	}
	for _, err := range c.Postgres.problems() {
		wrong = append(wrong, fmt.Errorf("postgres.%w", err))
	}
	return errors.Join(wrong...)
}

// Validate is like that of DbConfig.
func (c PostgresConfig) Validate() error { return errors.Join(c.problems()...) }

// longestName is what PostgreSQL keeps of an identifier, in bytes. It cuts longer ones silently, so that another database would be meant.
const longestName = 63

var passwordOption = regexp.MustCompile(`(?i)\bpassword\s*=`)

func (c PostgresConfig) problems() (wrong []error) {
	if c.Host == "" {
		wrong = append(wrong, errors.New("host: must not be empty"))
	}
	if c.Port < 1 || c.Port > 65535 {
		wrong = append(wrong, fmt.Errorf("port: %d is not within 1 to 65535", c.Port))
	}
	if c.DbName == "" || len(c.DbName) > longestName {
		wrong = append(wrong, fmt.Errorf("dbname: %q is not 1 to %d bytes long", c.DbName, longestName))
	}
	if c.User == "" || len(c.User) > longestName {
		wrong = append(wrong, fmt.Errorf("username: %q is not 1 to %d bytes long", c.User, longestName))
	}
	if c.Password != "" && c.PasswordPath != "" {
		wrong = append(wrong, errors.New("passwordPath: must be empty when password is set"))
	}
	if passwordOption.MatchString(c.ExtraOptions) {
		return append(wrong, errors.New("options: must not hold a password, which belongs into password or passwordPath"))
	}
	if len(wrong) == 0 {
		if err := CheckDsn(formatDsn(c, c.Host, "")); err != nil {
			wrong = append(wrong, fmt.Errorf("options: %w", err))
		}
	}
	return wrong
}
