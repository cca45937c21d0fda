package database

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDsnReadsWellWhereNothingNeedsQuotes(t *testing.T) {
	require.Equal(t, "host=db.example port=5432 dbname=flyte user=postgres password=s3cret sslmode=disable",
		GetPostgresDsn(t.Context(), PostgresConfig{Host: "db.example", User: "postgres", Password: "s3cret"}.WithDefaults()))
}

// Whatever the values are, the driver reads them as they were.
func TestDsnKeepsEveryValue(t *testing.T) {
	value := rapid.StringOfN(rapid.RuneFrom([]rune(`ab'"\ =@:/?#%&é`+"\t\n")), 1, 20, -1)
	rapid.Check(t, func(t *rapid.T) {
		config := PostgresConfig{
			Host: "localhost", Port: rapid.IntRange(1, 65535).Draw(t, "port"),
			DbName: value.Draw(t, "dbname"), User: value.Draw(t, "user"), Password: value.Draw(t, "password"), ExtraOptions: "sslmode=disable",
		}
		parsed, err := pgx.ParseConfig(GetPostgresDsn(t.Context(), config))
		require.NoError(t, err)
		require.Equal(t, config, PostgresConfig{
			Host: parsed.Host, Port: int(parsed.Port), DbName: parsed.Database, User: parsed.User, Password: parsed.Password, ExtraOptions: "sslmode=disable",
		})
	})
}

func TestPasswordComesFromTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(path, []byte("from file\n"), 0o600))
	config := PostgresConfig{PasswordPath: path}.WithDefaults()
	require.Contains(t, GetPostgresDsn(t.Context(), config), "password='from file'")

	require.NoError(t, os.Remove(path))
	require.NotContains(t, GetPostgresDsn(t.Context(), config), "password")
	_, err := GetDB(t.Context(), &DbConfig{Postgres: config})
	require.ErrorContains(t, err, "postgres.passwordPath: open "+path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestParserErrorsDoNotQuoteThePassword(t *testing.T) {
	// The driver blanks out passwords in what it quotes, but not behind an escaped quote.
	config := DefaultDbConfig()
	config.Postgres.Password = `it's a secret`
	config.Postgres.ExtraOptions = "sslmode=sometimes"
	_, err := GetDB(t.Context(), &config)
	require.ErrorContains(t, err, "sslmode")
	require.False(t, strings.Contains(err.Error(), "secret"), err)
}

func TestWhatIsWrongWithADsnIsToldWithoutIt(t *testing.T) {
	require.NoError(t, CheckDsn("host=h password=s3cret"))
	require.NoError(t, CheckDsn("postgres://u:s3cret@h/d?sslmode=disable"))
	for dsn, want := range map[string]string{
		"postgres://u:s3cret@h:x/d":            "not a connection string: invalid port",
		"postgres://u:s3%zzcret@h/d":           "not a connection string: failed to parse as URL",
		"host=h password = s3cret port=x":      "not a connection string: invalid port",
		`host=h password=\ s3cret port=x`:      "not a connection string: invalid port",
		"host=h sslpassword = s3cret`: port=x": "not a connection string: invalid port",
		"s3cret":                               "not a connection string: failed to parse as keyword/value",
	} {
		err := CheckDsn(dsn)
		require.ErrorContains(t, err, want, dsn)
		require.NotContains(t, err.Error(), "s3cret", dsn)
	}
}
