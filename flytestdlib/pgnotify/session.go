package pgnotify

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The ends of application_name by which an operator finds the two connections of a process in pg_stat_activity.
const (
	senderRole   = "notify-pump"
	listenerRole = "notify-listener"
)

// maxIdentifierBytes is NAMEDATALEN-1: what PostgreSQL keeps of an application_name and accepts as a channel name.
const maxIdentifierBytes = 63

// sessionConfig reads dsn (URL or key=value form, completed by the PG* variables as libpq does) for a session of the given
// role. It dials nothing. The errors of pgx name no password.
//
// Where dsn names several hosts and does not say which kind of server it wants, the session looks for one that takes
// writes: NOTIFY fails on a standby, and only LISTEN's own server sees what is sent.
func sessionConfig(dsn, role string, dialTimeout time.Duration) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("dsn of the %s connection: %w", role, err)
	}

	cfg.RuntimeParams["application_name"] = applicationName(cfg.RuntimeParams["application_name"], role)
	cfg.ConnectTimeout = dialTimeout

	// Payloads are UTF-8. Left unsaid, the server would take the bytes for what the database's own encoding makes of them.
	if _, set := cfg.RuntimeParams["client_encoding"]; !set {
		cfg.RuntimeParams["client_encoding"] = "UTF8"
	}

	if cfg.ValidateConnect == nil && namesSeveralHosts(&cfg.Config) {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return cfg, nil
}

// applicationName puts role behind the service's own name. Of a long name the front is kept: the server cuts at 63 bytes
// from the end, which would cost the role.
func applicationName(service, role string) string {
	if service == "" {
		return role
	}
	room := maxIdentifierBytes - len(role) - 1
	if len(service) > room {
		for room > 0 && !utf8.RuneStart(service[room]) {
			room--
		}
		service = service[:room]
	}
	return service + " " + role
}

// namesSeveralHosts sees through the fallbacks that pgx adds for one host (with and without TLS).
func namesSeveralHosts(cfg *pgconn.Config) bool {
	for _, f := range cfg.Fallbacks {
		if f.Host != cfg.Host || f.Port != cfg.Port {
			return true
		}
	}
	return false
}

// checkChannel says what is wrong with a channel name.
func checkChannel(channel string) error {
	switch {
	case channel == "":
		return fmt.Errorf("channel name is empty")
	case len(channel) > maxIdentifierBytes:
		return fmt.Errorf("channel name %.20q… has %d bytes, at most %d are allowed", channel, len(channel), maxIdentifierBytes)
	}
	if err := checkText(channel); err != nil {
		return fmt.Errorf("channel name %q: %w", channel, err)
	}
	return nil
}
