package impl

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// openOutcomePause is longer than a statement goes on at the server whose client has left: the driver asks the server to cancel it.
const openOutcomePause = 2 * time.Second

// announce notifies of a write that is committed, given the error it ended in, or may be. Where that is open it notifies a second time: the
// commit may come after what is sent at once was heard and the row read.
func announce(err error, notify func()) {
	if !mayBeCommitted(err) {
		return
	}
	notify()
	if err != nil {
		time.AfterFunc(openOutcomePause, notify)
	}
}

// mayBeCommitted tells whether a single-statement write is, or may be, committed, given the error it ended in.
//
// Sure not to be: what the server refused with an ERROR (it rolled back) and what was never sent, as all writes of an outage are not for want
// of a connection. All else leaves it open: the connection broke or the context ended after the statement had left, or the server ended the session (FATAL), which it may also do to one
// that has committed and waits for a replica to confirm.
func mayBeCommitted(err error) bool {
	if err == nil {
		return true
	}
	var noConnection *pgconn.ConnectError
	if errors.As(err, &noConnection) {
		return false // whatever the server has said: there was no session yet to send it in
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.SeverityUnlocalized != "ERROR"
	}
	return !pgconn.SafeToRetry(err)
}
