// Package database opens the service's PostgreSQL database.
package database

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// DbConfig is the pool and where it connects to.
type DbConfig struct {
	MaxIdleConnections int
	MaxOpenConnections int
	Postgres           PostgresConfig
}

// PostgresConfig says where the server is and who asks.
type PostgresConfig struct {
	Host            string
	ReadReplicaHost string
	Port            int
	DbName          string
	User            string
	Password        string
	PasswordPath    string
	ExtraOptions    string
}

// GetPostgresDsn is the connection string in keyword form.
func GetPostgresDsn(ctx context.Context, cfg PostgresConfig) string {
	password := cfg.Password
	if cfg.PasswordPath != "" {
		content, err := os.ReadFile(cfg.PasswordPath)
		if err != nil {
			logger.Errorf(ctx, "read the database password: %v", err)
		}
		password = strings.TrimSpace(string(content))
	}
	dsn := fmt.Sprintf("host=%s port=%d dbname=%s user=%s", cfg.Host, cfg.Port, cfg.DbName, cfg.User)
	if password != "" {
		dsn += " password=" + password
	}
	if cfg.ExtraOptions != "" {
		dsn += " " + cfg.ExtraOptions
	}
	return dsn
}
