package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// GetPostgresDsn returns the connection string of config in PostgreSQL's keyword form, every value quoted where it needs to be.
//
// The result contains the password: hand it to a driver, never to a log. When the password file cannot be read, that is logged and
// the string carries no password; GetDB returns the same as an error.
func GetPostgresDsn(ctx context.Context, config PostgresConfig) string {
	dsn, _, err := dsnFor(config, config.Host)
	if err != nil {
		logger.Errorf(ctx, "connection string without a password: %v", err)
		return formatDsn(config, config.Host, "")
	}
	return dsn
}

// dsnFor builds the connection string for host, which is the primary's or the replica's, and returns the password in it, for the caller to keep out of errors.
func dsnFor(config PostgresConfig, host string) (dsn, password string, err error) {
	password, err = config.resolvePassword()
	if err != nil {
		return "", "", err
	}
	return formatDsn(config, host, password), password, nil
}

func (c PostgresConfig) resolvePassword() (string, error) {
	if c.PasswordPath == "" {
		return c.Password, nil
	}
	content, err := os.ReadFile(c.PasswordPath)
	if err != nil {
		return "", fmt.Errorf("passwordPath: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

func formatDsn(c PostgresConfig, host, password string) string {
	pairs := []string{
		"host=" + quoteDsnValue(host),
		"port=" + strconv.Itoa(c.Port),
		"dbname=" + quoteDsnValue(c.DbName),
		"user=" + quoteDsnValue(c.User),
	}
	if password != "" {
		pairs = append(pairs, "password="+quoteDsnValue(password))
	}
	if c.ExtraOptions != "" {
		pairs = append(pairs, c.ExtraOptions)
	}
	return strings.Join(pairs, " ")
}

// quoteDsnValue quotes by libpq's rule: single quotes around, backslash before a quote or a backslash.
// Plain words stay as they are, so that a usual connection string reads well.
func quoteDsnValue(value string) string {
	plain := value != "" && !strings.ContainsFunc(value, func(r rune) bool {
		return r <= ' ' || r == '\'' || r == '\\' || r == '='
	})
	if plain {
		return value
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// withoutSecret returns err, or, if its text contains the secret, an error whose text has it blanked out. The latter cannot be
// unwrapped: the chain below it would still give the secret away.
func withoutSecret(err error, secret string) error {
	if err == nil || secret == "" || !strings.Contains(err.Error(), secret) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), secret, "xxxxxx"))
}
