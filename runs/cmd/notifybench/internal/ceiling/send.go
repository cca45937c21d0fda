package ceiling

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

// mouth sends in every form, on one connection, and on the Sender's own.
type mouth struct {
	n       int
	channel string
	conn    *pgx.Conn
	single  *pgconn.StatementDescription
	unnest  *pgconn.StatementDescription
	sender  *pgnotify.Sender
}

// openMouth connects and prepares, so that no run pays for it.
func (b *Bench) openMouth(ctx context.Context, channel string) (_ *mouth, err error) {
	m := &mouth{n: b.cfg.N, channel: channel}
	if m.sender, err = pgnotify.NewSender(pgnotify.SenderConfig{DSN: b.srv.DSN()}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.conn, err = b.srv.Connect(ctx, nil); err != nil {
		return nil, err
	}
	if m.single, err = server.Prepare(ctx, m.conn, "single", "SELECT pg_notify($1, $2)"); err != nil {
		return nil, err
	}
	if m.unnest, err = server.Prepare(ctx, m.conn, "unnest", "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"); err != nil {
		return nil, err
	}
	// To a channel that nobody listens on.
	warm := m.sender.Send(ctx, pgnotify.Batch{Channel: server.UniqueName(), Entries: []pgnotify.Entry{{Payload: "connect"}}})
	if warm.Err != nil {
		return nil, fmt.Errorf("the sender: %w", warm.Err)
	}
	return m, nil
}

func (m *mouth) close() {
	_ = m.sender.Close() // nothing is under way any more
	if m.conn != nil {
		server.Disconnect(m.conn)
	}
}

// send sends prefix followed by 0, 1, 2, … in a form, and returns when the last is confirmed.
func (m *mouth) send(ctx context.Context, form, prefix string) error {
	switch form {
	case ServerLoop:
		return m.inServer(ctx, prefix)
	case Single:
		return m.oneByOne(ctx, prefix)
	case MultiCall:
		return m.inOneStatement(ctx, prefix)
	case Unnest:
		return m.fromArray(prefix)
	case Pipeline:
		return server.Exec(m.conn, m.calls(prefix)...)
	default:
		return m.pipelined(ctx, prefix)
	}
}

func (m *mouth) inServer(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	// A DO block takes no parameters; channel and prefix are words of ours.
	_, err := m.conn.PgConn().Exec(ctx, fmt.Sprintf("DO $do$ BEGIN FOR i IN 0..%d LOOP PERFORM pg_notify('%s', '%s' || i); END LOOP; END $do$",
		m.n-1, m.channel, prefix)).ReadAll()
	return err
}

func (m *mouth) call(prefix string, i int) server.Call {
	return server.Call{Statement: m.single, Params: [][]byte{[]byte(m.channel), strconv.AppendInt([]byte(prefix), int64(i), 10)}}
}

func (m *mouth) calls(prefix string) []server.Call {
	calls := make([]server.Call, m.n)
	for i := range calls {
		calls[i] = m.call(prefix, i)
	}
	return calls
}

func (m *mouth) oneByOne(ctx context.Context, prefix string) error {
	for i := 0; i < m.n && ctx.Err() == nil; i++ {
		if err := server.Exec(m.conn, m.call(prefix, i)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *mouth) inOneStatement(ctx context.Context, prefix string) error {
	batch := pgnotify.Batch{Channel: m.channel, Entries: make([]pgnotify.Entry, m.n)}
	for i := range batch.Entries {
		batch.Entries[i].Payload = prefix + strconv.Itoa(i)
	}
	return m.sender.Send(ctx, batch).Err
}

func (m *mouth) fromArray(prefix string) error {
	array := []byte{'{'}
	for i := range m.n {
		if i > 0 {
			array = append(array, ',')
		}
		array = fmt.Appendf(array, `"%s%d"`, prefix, i)
	}
	return server.Exec(m.conn, server.Call{Statement: m.unnest, Params: [][]byte{[]byte(m.channel), append(array, '}')}})
}

// pipelined asks for an answer, and so for a commit, after each statement, but waits for none of them before the last is sent.
func (m *mouth) pipelined(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	pipeline := m.conn.PgConn().StartPipeline(ctx)
	for i := range m.n {
		call := m.call(prefix, i)
		pipeline.SendQueryStatement(call.Statement, call.Params, nil, nil)
		pipeline.SendPipelineSync()
	}
	if err := pipeline.Flush(); err != nil {
		_ = pipeline.Close()
		return err
	}
	return pipeline.Close() // reads all results, and returns the first error among them
}
