package database

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDefaultsAreValid(t *testing.T) {
	require.NoError(t, DefaultDbConfig().Validate())
	// The default idle limit does not clash with a small open limit.
	require.NoError(t, DbConfig{MaxOpenConnections: 3}.WithDefaults().Validate())
}

func TestValidateNamesKeyAndBound(t *testing.T) {
	long := strings.Repeat("x", 64)
	for want, change := range map[string]func(*DbConfig){
		"maxOpenConnections: -1 is not within 1 to 262143":                          func(c *DbConfig) { c.MaxOpenConnections = -1 },
		"maxIdleConnections: -1 is not within 1 to 262143":                          func(c *DbConfig) { c.MaxIdleConnections = -1 },
		"connMaxLifeTime: 1ms is below 1s":                                          func(c *DbConfig) { c.ConnMaxLifeTime = time.Millisecond },
		"postgres.host: must not be empty":                                          func(c *DbConfig) { c.Postgres.Host = "" },
		"postgres.port: 65536 is not within 1 to 65535":                             func(c *DbConfig) { c.Postgres.Port = 65536 },
		`postgres.dbname: "` + long + `" is not 1 to 63 bytes long`:                 func(c *DbConfig) { c.Postgres.DbName = long },
		`postgres.username: "" is not 1 to 63 bytes long`:                           func(c *DbConfig) { c.Postgres.User = "" },
		"postgres.passwordPath: must be empty when password is set":                 func(c *DbConfig) { c.Postgres.Password, c.Postgres.PasswordPath = "a", "b" },
		"postgres.options: must not hold a password":                                func(c *DbConfig) { c.Postgres.ExtraOptions = "sslmode=disable PASSWORD = hush" },
		"postgres.options: not a connection string":                                 func(c *DbConfig) { c.Postgres.ExtraOptions = "sslmode=sometimes" },
		"postgres.port: 0 is not within 1 to 65535\npostgres.username: \"\" is not": func(c *DbConfig) { c.Postgres.Port, c.Postgres.User = 0, "" },
	} {
		config := DefaultDbConfig()
		change(&config)
		require.ErrorContains(t, config.Validate(), want)
		require.NotContains(t, config.Validate().Error(), "hush")
	}
}
