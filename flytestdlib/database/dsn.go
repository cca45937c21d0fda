package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// GetPostgresDsn returns the connection string of config in PostgreSQL's keyword form, every value quoted where it needs to be.
//
// The result contains the password: hand it to a driver, never to a log. When the password file cannot be read, that is logged and
// the string carries no password; GetDB returns the same as an error.
func GetPostgresDsn(ctx context.Context, config PostgresConfig) string {
	password, err := config.resolvePassword()
	if err != nil {
		logger.Errorf(ctx, "connection string without a password: %v", err)
	}
	return formatDsn(config, config.Host, password)
}

// CheckDsn says what is wrong with a connection string, in URL or keyword form, without quoting it: the driver, which does, does not find
// every way in which a password can be written there.
func CheckDsn(dsn string) error {
	_, err := pgx.ParseConfig(dsn)
	if err == nil {
		return nil
	}
	// The driver quotes the string in backquotes, then says what is wrong. Should it ever say so in another way, nothing is passed on.
	text := err.Error()
	end := strings.LastIndex(text, "`: ")
	if end < 0 {
		return errors.New("not a connection string")
	}
	return fmt.Errorf("not a connection string: %s", text[end+len("`: "):])
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
