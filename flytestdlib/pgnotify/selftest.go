package pgnotify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// selfTest finds out whether notifications reach conn at all, which they do not behind a connection pooler that gives a
// session to its client for a transaction at a time: LISTEN succeeds there, on a session that is then somebody
// else's. Nor do they from another database. A nonce is sent on a channel of that name and expected back.
//
// It is sent from a second connection, because that pooler may well run the NOTIFY on the session that listens, and
// then pass the answer, notification included, to whoever sent it.
func (l *Listener) selfTest(ctx context.Context, conn *pgconn.PgConn) error {
	nonce := "pgnotify_selftest_" + rand.Text()
	if err := l.exec(ctx, conn, "LISTEN "+quoteIdentifier(nonce)); err != nil {
		return err
	}
	l.awaited, l.heard = nonce, false
	defer func() { l.awaited = "" }()
	if err := l.sendNonce(ctx, nonce); err != nil {
		return &sendingError{err}
	}

	waitCtx, cancel := context.WithTimeout(ctx, l.cfg.PingTimeout)
	defer cancel()
	for !l.heard {
		switch err := conn.WaitForNotification(waitCtx); {
		case err == nil:
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("a notification sent to this session has not arrived within %s: the listener needs a DSN that leads to the server and "+
				"database in which notifications are sent, and not through a connection pooler in transaction mode, where LISTEN has no effect",
				l.cfg.PingTimeout)
		default:
			return err
		}
	}
	return l.exec(ctx, conn, "UNLISTEN "+quoteIdentifier(nonce))
}

func (l *Listener) sendNonce(ctx context.Context, nonce string) error {
	dialCtx, cancel := context.WithTimeout(ctx, l.cfg.DialTimeout)
	defer cancel()
	sender, err := pgconn.ConnectConfig(dialCtx, l.sending.Copy())
	if err != nil {
		return fmt.Errorf("connect to send: %w", named(ctx, err, "no connection", l.cfg.DialTimeout))
	}
	defer hangUp(sender)
	return l.exec(ctx, sender, fmt.Sprintf("NOTIFY %s", quoteIdentifier(nonce)))
}

// sendingError is a self-test that told nothing, since it could not be sent.
type sendingError struct{ err error }

func (e *sendingError) Error() string { return e.err.Error() }
func (e *sendingError) Unwrap() error { return e.err }

// quoteIdentifier makes a name of any content one identifier, upper case and all.
func quoteIdentifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// hangUpTimeout bounds the farewell to a connection that may be half open.
const hangUpTimeout = time.Second

// hangUp closes a connection, whatever state it is in, and waits until nothing works on it any more.
func hangUp(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), hangUpTimeout)
	defer cancel()
	_ = conn.Close(ctx)     // does nothing when pgconn has given it up; then it is being closed in the background,
	_ = conn.Conn().Close() // which this cuts short
	select {
	case <-conn.CleanupDone():
	case <-ctx.Done():
	}
}
