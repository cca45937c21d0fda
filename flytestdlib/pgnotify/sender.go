package pgnotify

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// SenderConfig configures a Sender. Only DSN is required.
type SenderConfig struct {
	// DSN names the server, as a URL or in key=value form. It should lead to the server itself: a connection pooler in between
	// may refuse the start-up parameter synchronous_commit. The session calls itself what application_name in DSN says,
	// followed by "notify-pump".
	DSN string

	// DialTimeout bounds everything until a connection is ready to send: name look-up, dial, TLS, authentication, preparing
	// the statements. Default 5 s. Shorter gives up a slow server, longer stays longer with a dead one.
	DialTimeout time.Duration

	// ExecTimeout bounds the wait for the answer to one statement, and so the time for which a half-open connection goes
	// unnoticed. Default 10 s. A server that takes longer than this for a thousand notifications is asked again on a new
	// connection, so it should be well above what a loaded server takes.
	ExecTimeout time.Duration
}

// Defaults of SenderConfig.
const (
	DefaultDialTimeout = 5 * time.Second
	DefaultExecTimeout = 10 * time.Second
)

// WithDefaults returns a copy in which zero fields have their defaults.
func (c SenderConfig) WithDefaults() SenderConfig {
	if c.DialTimeout == 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.ExecTimeout == 0 {
		c.ExecTimeout = DefaultExecTimeout
	}
	return c
}

func (c SenderConfig) validate() error {
	switch {
	case c.DialTimeout < 0:
		return fmt.Errorf("DialTimeout is %s, it must be positive", c.DialTimeout)
	case c.ExecTimeout < 0:
		return fmt.Errorf("ExecTimeout is %s, it must be positive", c.ExecTimeout)
	}
	return nil
}

// SenderStats is a snapshot of what a Sender has done.
type SenderStats struct {
	Statements uint64 // statements that the server has confirmed; one round trip each
	Connects   uint64 // connections made (0 for a Sender on a caller's pool)
	BackendPID uint32 // of the connection made last (0 before the first)
}

// Sender sends batches, in statements of up to a thousand pg_notify calls, one round trip each. It keeps one connection, which is
// nobody else's: made when first needed, given up after any failure that is not a payload's fault, or when DSN leads to another
// server by now (which is looked for each half a minute, on a connection made for it), made anew by the next Send.
//
// Send is for one goroutine; Stats may be called from any.
type Sender struct {
	cfg  SenderConfig
	db   *sql.DB
	owns bool // db is ours: its connections are prepared, and Close closes it
	exec func(ctx context.Context, conn *sql.Conn, channel string, entries []Entry) error

	rejections lineBudget

	follower *follower   // nil on a caller's pool
	moved    atomic.Bool // the connection leads to another server than one made now would

	statements, connects atomic.Uint64
	backendPID           atomic.Uint32
}

// NewSender returns a Sender with a connection of its own. It does no I/O: the first Send dials.
func NewSender(cfg SenderConfig) (*Sender, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("pgnotify sender: %w", err)
	}
	session, err := sessionConfig(cfg.DSN, senderRole, cfg.DialTimeout)
	if err != nil {
		return nil, fmt.Errorf("pgnotify sender: %w", err)
	}
	// A notification does not survive a crash whatever its commit waits for, and while a commit with notifications waits it
	// holds a lock that every other such commit in the cluster needs. A DSN that says otherwise is obeyed.
	if _, set := session.RuntimeParams["synchronous_commit"]; !set {
		session.RuntimeParams["synchronous_commit"] = "off"
	}

	follower, err := newFollower(cfg.DSN, cfg.DialTimeout)
	if err != nil {
		return nil, fmt.Errorf("pgnotify sender: %w", err)
	}

	s := &Sender{cfg: cfg, owns: true, exec: execPrepared, follower: follower}
	s.db = stdlib.OpenDB(*session,
		stdlib.OptionAfterConnect(s.prepare),
		// database/sql would spend a round trip on asking a connection that has been idle for a second whether it lives. The
		// statement itself asks that too.
		stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }),
		stdlib.OptionResetSession(s.stay),
	)
	s.db.SetMaxOpenConns(1)
	s.db.SetMaxIdleConns(1)
	return s, nil
}

// NewSenderOn returns a Sender on a pool of the caller's, of any driver that takes $1 parameters; cfg.DSN is not used. It
// borrows one connection for each Send and holds none in between, and leaves not more prepared statements on it than
// there are widths. The pool stays the caller's to close. A Sender with a connection of its own does not compete with anybody
// for the pool, and should be preferred.
func NewSenderOn(db *sql.DB, cfg SenderConfig) (*Sender, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("pgnotify sender: %w", err)
	}
	return &Sender{cfg: cfg, db: db, exec: execText}, nil
}

// Send delivers what it can of the batch and says what became of each entry. It returns within the dial timeout plus one
// statement timeout of the last progress, or soon after ctx ends. A failure that is not about a payload ends the batch there: what is
// behind stays undelivered.
func (s *Sender) Send(ctx context.Context, batch Batch) Outcome {
	out := Outcome{Batch: batch}
	good := s.rejectBad(batch, &out)
	if len(good) == 0 {
		return out
	}

	conn, err := s.connect(ctx)
	if err != nil {
		out.fail(good, err)
		if out.Reason == ReasonPayload { // no payload has been sent: a setting of the session is meant
			out.Reason = ReasonOther
		}
		return out
	}
	for chunk := range slices.Chunk(good, maxWidth) {
		var done int
		done, err = s.deliver(ctx, conn, batch.Channel, chunk, &out)
		good = good[done:]
		if err != nil {
			out.fail(good, err)
			discard(conn)
			break
		}
	}
	_ = conn.Close() // back to the pool; after discard this only says that it has gone already
	return out
}

// rejectBad rejects the payloads that PostgreSQL would never take, and returns the others: the batch's own slice when there is
// no bad one.
func (s *Sender) rejectBad(batch Batch, out *Outcome) []Entry {
	bad := func(e Entry) bool { return CheckPayload(e.Payload) != nil }
	if !slices.ContainsFunc(batch.Entries, bad) {
		return batch.Entries
	}
	good := make([]Entry, 0, len(batch.Entries))
	for _, e := range batch.Entries {
		if err := CheckPayload(e.Payload); err != nil {
			s.reject(batch.Channel, e, err, out)
		} else {
			good = append(good, e)
		}
	}
	return good
}

// reject counts a payload that will never be taken, and says so once. It quotes the front of the payload only: a log line
// must not grow to a payload's length nor carry its control characters.
func (s *Sender) reject(channel string, e Entry, why error, out *Outcome) {
	out.Rejected++
	if write, untold := s.rejections.spend(time.Now()); write {
		logger.Errorf(context.Background(), "notification on %s rejected, its receivers are not woken: payload %.80q: %v%s", channel, e.Payload, why, andUntold(untold))
	}
}

// connect borrows a connection from the pool, which makes one if it has none that lives.
func (s *Sender) connect(ctx context.Context) (*sql.Conn, error) {
	dialCtx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	conn, err := s.db.Conn(dialCtx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", named(ctx, err, "no connection", s.cfg.DialTimeout))
	}
	return conn, nil
}

// deliver sends entries, at most maxWidth, and returns how many of them, from the front, are done with: delivered or
// rejected. When the server refuses a payload the entries are halved until the bad one stands alone, which takes at most
// two statements per halving.
func (s *Sender) deliver(ctx context.Context, conn *sql.Conn, channel string, entries []Entry, out *Outcome) (int, error) {
	err := s.statement(ctx, conn, channel, entries, out)
	switch {
	case err == nil:
		return len(entries), nil
	case classify(err) != ReasonPayload:
		return 0, err
	case len(entries) == 1:
		s.reject(channel, entries[0], err, out)
		return 1, nil
	}
	half := len(entries) / 2
	done, err := s.deliver(ctx, conn, channel, entries[:half], out)
	if err != nil {
		return done, err
	}
	more, err := s.deliver(ctx, conn, channel, entries[half:], out)
	return done + more, err
}

func (s *Sender) statement(ctx context.Context, conn *sql.Conn, channel string, entries []Entry, out *Outcome) error {
	execCtx, cancel := context.WithTimeout(ctx, s.cfg.ExecTimeout)
	defer cancel()
	began := time.Now()
	err := s.exec(execCtx, conn, channel, entries)
	out.Statements = append(out.Statements, Statement{Payloads: len(entries), Took: time.Since(began), Reason: classify(err)})
	if err != nil {
		return fmt.Errorf("notify: %w", named(ctx, err, "no answer", s.cfg.ExecTimeout))
	}
	s.statements.Add(1)
	return nil
}

// named says which limit ran out when it was ours and not the caller's.
func named(caller context.Context, err error, what string, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) && caller.Err() == nil {
		return fmt.Errorf("%s within %s: %w", what, limit, err)
	}
	return err
}

// discard gives a connection up: ErrBadConn is how database/sql learns that it must not go back to the pool. Closing it takes
// no round trip.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// execText runs the statement by its text on whatever driver there is. Under pgx's default mode that prepares it when a width is
// seen for the first time on a connection (two round trips) and costs one round trip from then on.
func execText(ctx context.Context, conn *sql.Conn, channel string, entries []Entry) error {
	i := widthIndex(len(entries))
	args := fill(make([]any, 0, widths[i]+1), channel, entries, widths[i], func(s string) any { return s })
	_, err := conn.ExecContext(ctx, statements()[i], args...)
	return err
}

// preparedKey is where prepare leaves the statements of a connection.
const preparedKey = "pgnotify.prepared"

// prepare prepares the statements of all widths on a new connection in one round trip, so that every batch costs exactly one
// from the first on, and a reconnect does not pay for each width anew.
//
// Prepared, because a thousand calls take the server 0.6 ms so and 3.1 ms when the text is parsed each time; by
// ourselves, because pgx offers no way to prepare several statements at once.
func (s *Sender) prepare(ctx context.Context, conn *pgx.Conn) error {
	s.connects.Add(1)
	s.backendPID.Store(conn.PgConn().PID())

	pipeline := conn.PgConn().StartPipeline(ctx)
	for i, text := range statements() {
		pipeline.SendPrepare(preparedName(i), text, nil)
	}
	pipeline.SendQueryParams(serverSQL, nil, nil, nil, nil)
	if err := pipeline.Sync(); err != nil {
		return fmt.Errorf("prepare the notify statements: %w", err)
	}
	var prepared [len(widths)]*pgconn.StatementDescription
	for i := range prepared {
		result, err := pipeline.GetResults()
		if err != nil {
			_ = pipeline.Close()
			return fmt.Errorf("prepare the notify statement of width %d: %w", widths[i], err)
		}
		prepared[i] = result.(*pgconn.StatementDescription)
		prepared[i].Name = preparedName(i) // a pipeline does not fill it in
	}
	server, err := s.serverIn(pipeline)
	if err != nil {
		_ = pipeline.Close()
		return fmt.Errorf("ask which server it is: %w", err)
	}
	if err := pipeline.Close(); err != nil {
		return fmt.Errorf("prepare the notify statements: %w", err)
	}
	conn.PgConn().CustomData()[preparedKey] = &prepared

	s.follower.stop() // or it could say of this connection what is true of the one before
	s.moved.Store(false)
	s.follower.follow(server, func(time.Time) {
		logger.Warnf(context.Background(), "%s: notifications are sent there from now on", errMoved)
		s.moved.Store(true)
	})
	return nil
}

// serverIn reads the answer to serverSQL.
func (s *Sender) serverIn(pipeline *pgconn.Pipeline) (string, error) {
	result, err := pipeline.GetResults()
	if err != nil {
		return "", err
	}
	answer := result.(*pgconn.ResultReader).Read()
	if answer.Err != nil {
		return "", answer.Err
	}
	return string(answer.Rows[0][0]), nil
}

// stay is asked before a connection is used again, and makes the pool replace one that leads to another server than the next would.
func (s *Sender) stay(context.Context, *pgx.Conn) error {
	if s.moved.Load() {
		return driver.ErrBadConn
	}
	return nil
}

func preparedName(i int) string { return fmt.Sprintf("pgnotify_%d", widths[i]) }

// execPrepared runs the statement that prepare has left on the connection: one round trip, no text, no row description.
func execPrepared(ctx context.Context, conn *sql.Conn, channel string, entries []Entry) error {
	i := widthIndex(len(entries))
	params := fill(make([][]byte, 0, widths[i]+1), channel, entries, widths[i], func(s string) []byte { return []byte(s) })
	return conn.Raw(func(driverConn any) error {
		pg := driverConn.(*stdlib.Conn).Conn().PgConn()
		prepared := pg.CustomData()[preparedKey].(*[len(widths)]*pgconn.StatementDescription)
		_, err := pg.ExecStatement(ctx, prepared[i], params, nil, nil).Close()
		return err
	})
}

// Stats returns what the Sender has done so far.
func (s *Sender) Stats() SenderStats {
	return SenderStats{Statements: s.statements.Load(), Connects: s.connects.Load(), BackendPID: s.backendPID.Load()}
}

// Close ends the connection. It must not be called before the last Send has returned; cancel the context of that Send to make it
// return. It does no round trip. A second Close does nothing; a caller's pool is left alone.
func (s *Sender) Close() error {
	if !s.owns {
		return nil
	}
	s.follower.stop()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the %s connection: %w", senderRole, err)
	}
	return nil
}
