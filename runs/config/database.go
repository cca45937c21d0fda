package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
)

// Database says which PostgreSQL the service uses: the server at postgres.host or, where no host is set, one that it starts
// and stops itself.
type Database struct {
	// StartTimeout spares a service that comes up before its database a crash loop; when it has passed, whoever restarts
	// services should know.
	StartTimeout time.Duration `yaml:"startTimeout" desc:"at start, longest time to wait for a database that cannot be reached (duration)"`

	database.DbConfig `yaml:",inline"`

	Embedded embedded.Config `yaml:"embedded" desc:"the server that is started when database.postgres.host is not set"`
}

func defaultDatabase() Database {
	db := Database{
		DbConfig:     database.DefaultDbConfig(),
		StartTimeout: 5 * time.Minute,
		Embedded:     embedded.DefaultConfig(),
	}
	db.Postgres.Host = ""
	return db
}

// UsesEmbedded tells whether the service starts its own server.
func (d Database) UsesEmbedded() bool { return d.Postgres.Host == "" }

// Validate names each field that is out of bounds or, as things are set, without effect.
func (d Database) Validate() error {
	db := d.DbConfig
	var wrong []error
	if d.UsesEmbedded() {
		wrong = append(wrong, d.withoutEffect()...)
		// The address is not known yet. What stands here has passed this very check in the defaults.
		db.Postgres = database.DefaultDbConfig().Postgres
		db.Postgres.DbName = d.Postgres.DbName
	}
	if d.Postgres.ReadReplicaHost != "" {
		wrong = append(wrong, errors.New("postgres.readReplicaHost: must be empty: a replica lags behind the notifications that this service reads after"))
	}
	if d.StartTimeout <= 0 {
		wrong = append(wrong, fmt.Errorf("startTimeout: %s is not above 0", d.StartTimeout))
	}
	wrong = append(wrong, db.Validate())
	wrong = append(wrong, inside("embedded", d.Embedded.Validate())...)

	return errors.Join(wrong...)
}

// withoutEffect names what is set of the address of a server, when the host is not.
func (d Database) withoutEffect() (wrong []error) {
	unset := database.DefaultDbConfig().Postgres
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"port", d.Postgres.Port != unset.Port},
		{"username", d.Postgres.User != unset.User},
		{"password", d.Postgres.Password != unset.Password},
		{"passwordPath", d.Postgres.PasswordPath != unset.PasswordPath},
		{"options", d.Postgres.ExtraOptions != unset.ExtraOptions},
	} {
		if field.set {
			wrong = append(wrong, fmt.Errorf("postgres.%s: has no effect without postgres.host", field.name))
		}
	}
	return wrong
}

// inside puts the section's name before each part of its error.
func inside(section string, err error) (wrong []error) {
	if err == nil {
		return nil
	}
	parts, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{fmt.Errorf("%s.%w", section, err)}
	}
	for _, part := range parts.Unwrap() {
		wrong = append(wrong, inside(section, part)...)
	}
	return wrong
}
