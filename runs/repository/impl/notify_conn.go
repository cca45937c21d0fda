package impl

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// connConfig is how the serial pump connects: as dsn says, under a name that ends in suffix.
func connConfig(dsn, suffix string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("connection string of the %s: %w", suffix, err)
	}
	name := suffix
	if configured := config.RuntimeParams["application_name"]; configured != "" {
		name = configured + " " + suffix
	}
	config.RuntimeParams["application_name"] = name
	return config, nil
}
