package stream

import (
	"context"
	"fmt"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

// table is where the rows of one run are. Its primary key is the index by which readers read on.
type table struct {
	schema, name string
	srv          *server.Server
}

const createTable = `CREATE TABLE %s (
	stream     integer     NOT NULL,
	seq        bigint      NOT NULL,
	writer     integer     NOT NULL,
	written_at timestamptz NOT NULL,
	body       text        NOT NULL,
	PRIMARY KEY (stream, seq)
)`

// body is what a row carries: 100 bytes.
const body = "Something that a step of a workflow has to say to whoever follows it: a token, a line of log, a number."

const createTrigger = `
CREATE FUNCTION %[1]s.announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify(TG_ARGV[0], NEW.stream::text);
	RETURN NULL;
END $$;
CREATE TRIGGER announce AFTER INSERT ON %[2]s FOR EACH ROW EXECUTE FUNCTION %[1]s.announce('%[3]s')`

func (t table) insertSQL() string {
	return "INSERT INTO " + t.name + " (stream, seq, writer, written_at, body) VALUES ($1, $2, $3, clock_timestamp(), $4)"
}

// readSQL reads on in several streams at once, at most pageRows in each: $1 are the streams, $2 the numbers of the last rows read.
func (t table) readSQL() string {
	return `SELECT more.stream, more.seq, more.written_at
		FROM unnest($1::integer[], $2::bigint[]) AS at (stream, seq)
		CROSS JOIN LATERAL (
			SELECT stream, seq, written_at FROM ` + t.name + ` AS s
			WHERE s.stream = at.stream AND s.seq > at.seq ORDER BY s.seq LIMIT ` + fmt.Sprint(pageRows) + `
		) AS more`
}

const pageRows = 1000

// readSettings keep readers to the index, and to one plan: the table is new and has no statistics, from which the server would think
// it small, plan each read anew, and sort.
const readSettings = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan"

// setUp creates the run's table and compares the clocks.
func (l *load) setUp(ctx context.Context, schema string) error {
	l.table = table{schema: schema, name: schema + ".rows", srv: l.srv}
	conn, err := l.srv.Connect(ctx, nil)
	if err != nil {
		return err
	}
	defer server.Disconnect(conn)
	if l.clock, err = server.ReadClock(ctx, conn); err != nil {
		return err
	}
	sql := fmt.Sprintf(createTable, l.table.name)
	if l.mode == Trigger {
		sql += ";" + fmt.Sprintf(createTrigger, schema, l.table.name, l.channel)
	}
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("create the table: %w", err)
	}
	return nil
}

// drop removes the table and the trigger's function, so that the next run can have its own.
func (t table) drop(ctx context.Context) error {
	if err := t.srv.Execute(ctx, "DROP TABLE "+t.name, "DROP FUNCTION IF EXISTS "+t.schema+".announce()"); err != nil {
		return fmt.Errorf("drop the table: %w", err)
	}
	return nil
}
