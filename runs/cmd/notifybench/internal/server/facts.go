package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Facts are what one has to know of the server to read the figures.
type Facts struct {
	Address  string `json:"address"`
	Version  string `json:"version"`
	Embedded bool   `json:"embedded"`
	// What a commit waits for: with fsync or synchronous_commit off nothing, and then there is little that a lock could be held through.
	Fsync             string `json:"fsync"`
	SynchronousCommit string `json:"synchronousCommit"`
	WALSyncMethod     string `json:"walSyncMethod"`
	FullPageWrites    string `json:"fullPageWrites"`
	// AddedRTT is what the proxy adds; RTT what an empty query takes in all, the median of many. Milliseconds.
	AddedRTT float64 `json:"addedRttMs"`
	RTT      float64 `json:"rttMs"`
}

// String is one line for people.
func (f Facts) String() string {
	from := "at " + f.Address
	if f.Embedded {
		from = "embedded, empty at the start"
	}
	rtt := fmt.Sprintf("round trip %.3g ms", f.RTT)
	if f.AddedRTT > 0 {
		rtt += fmt.Sprintf(" (%.3g ms of them added)", f.AddedRTT)
	}
	return fmt.Sprintf("PostgreSQL %s (%s), fsync=%s synchronous_commit=%s wal_sync_method=%s full_page_writes=%s, %s",
		f.Version, from, f.Fsync, f.SynchronousCommit, f.WALSyncMethod, f.FullPageWrites, rtt)
}

// inspect asks the server who it is, and says what it lacks.
func (s *Server) inspect(ctx context.Context, needs Needs) (Facts, error) {
	conn, err := s.Connect(ctx, nil)
	if err != nil {
		return Facts{}, err
	}
	defer Disconnect(conn)
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()

	var f Facts
	if err := conn.QueryRow(ctx, `SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('wal_sync_method'), current_setting('full_page_writes')`).
		Scan(&f.Version, &f.Fsync, &f.SynchronousCommit, &f.WALSyncMethod, &f.FullPageWrites); err != nil {
		return f, fmt.Errorf("ask the server for its settings: %w", err)
	}
	if err := check(ctx, conn, needs); err != nil {
		return f, err
	}
	rtt, err := roundTrip(ctx, conn)
	f.RTT = milliseconds(rtt)
	return f, err
}

// check says what the server lacks, with the statement that mends it where there is one.
func check(ctx context.Context, conn *pgx.Conn, needs Needs) error {
	var (
		role, database                      string
		standby, notify, create, procedural bool
		room                                int
	)
	// pg_stat_activity would hide other people's sessions from an ordinary role; the counts of pg_stat_database do not.
	if err := conn.QueryRow(ctx, `SELECT current_user::text, current_database()::text, pg_is_in_recovery(),
		has_function_privilege('pg_notify(text,text)', 'EXECUTE'),
		has_database_privilege(current_database(), 'CREATE'),
		coalesce((SELECT has_language_privilege(oid, 'USAGE') FROM pg_language WHERE lanname = 'plpgsql'), false),
		(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database) + 1)::int`).
		Scan(&role, &database, &standby, &notify, &create, &procedural, &room); err != nil {
		return fmt.Errorf("ask the server for our rights: %w", err)
	}
	r, d := pgx.Identifier{role}.Sanitize(), pgx.Identifier{database}.Sanitize()
	switch {
	case standby:
		return fmt.Errorf("the server is a standby: it takes neither NOTIFY nor writes")
	case !notify:
		return fmt.Errorf("role %s may not notify: GRANT EXECUTE ON FUNCTION pg_notify(text, text) TO %s", r, r)
	case needs.Tables && !create:
		return fmt.Errorf("role %s may not create a schema in database %s: GRANT CREATE ON DATABASE %s TO %s", r, d, d, r)
	case needs.Procedures && !procedural:
		return fmt.Errorf("role %s may not use PL/pgSQL: GRANT USAGE ON LANGUAGE plpgsql TO %s", r, r)
	case room < needs.Connections:
		return fmt.Errorf("%d connections are needed, and the server has room for %d more: ask for fewer, or raise max_connections", needs.Connections, max(room, 0))
	}
	return nil
}

// roundTrip returns the median of as many empty queries as fit into a second, 200 at most.
func roundTrip(ctx context.Context, conn *pgx.Conn) (time.Duration, error) {
	var took []time.Duration
	for began := time.Now(); len(took) < 200 && (time.Since(began) < time.Second || len(took) < 3); {
		sent := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return 0, fmt.Errorf("measure the round trip: %w", err)
		}
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
