package impl

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// mayBeCommitted tells whether a single-statement write is, or may be, committed, given the error it ended in.
//
// Sure not to be: what the server refused with an ERROR (it rolled back) and what was never sent. All else leaves it open: the
// connection broke or the context ended after the statement had left, or the server ended the session (FATAL), which it may also do to one
// that has committed and waits for a replica to confirm.
func mayBeCommitted(err error) bool {
	if err == nil {
		return true
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.SeverityUnlocalized != "ERROR"
	}
	return !pgconn.SafeToRetry(err)
}
