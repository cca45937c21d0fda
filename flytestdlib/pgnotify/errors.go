package pgnotify

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"unicode/utf8"
)

// maxPayloadBytes is the longest payload that PostgreSQL takes: its limit is "shorter than 8,000 bytes", terminator included.
const maxPayloadBytes = 7999

// CheckPayload says why PostgreSQL would never take payload, or nil. The empty payload is a valid one. The limit counts
// bytes, not characters. Sender asks it before a payload enters a statement; a caller that can refuse its input may ask
// earlier.
func CheckPayload(payload string) error {
	if len(payload) > maxPayloadBytes {
		return fmt.Errorf("payload has %d bytes, at most %d are allowed", len(payload), maxPayloadBytes)
	}
	return checkText(payload)
}

// checkText says why s is no PostgreSQL text, or nil.
func checkText(s string) error {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return fmt.Errorf("NUL byte at offset %d", i)
	}
	if !utf8.ValidString(s) {
		return errors.New("not valid UTF-8")
	}
	return nil
}

// Reason is the class of a failure: a short fixed word, fit for a metric's label. The empty Reason means no failure.
type Reason string

const (
	// ReasonPayload: the server refused what was in a payload, and would refuse it for ever. The only class in which
	// retrying the same statement is useless and the connection is as good as before, so the payload is singled out and
	// rejected, and the rest goes on.
	ReasonPayload Reason = "payload"

	// ReasonShutdown: the server ended the session: killed by an administrator, crashed, idle for too long, not yet or no
	// more accepting. A fresh connection helps at once or once the server is back.
	ReasonShutdown Reason = "shutdown"

	// ReasonReadOnly: the server is a standby, by a failover that this connection has outlived or because the address
	// does not yet point to the new primary. The connection itself works, which is exactly why it has to go: kept, it
	// would stay on the wrong server for ever.
	ReasonReadOnly Reason = "read_only"

	// ReasonCapacity: no room for the moment: queue full, too many connections, out of memory or disk. Time helps.
	ReasonCapacity Reason = "capacity"

	// ReasonTimeout: no answer in time, or the statement was cancelled at the server. Whether it committed is unknown, so
	// it is sent again; the connection may be half open, so it is replaced.
	ReasonTimeout Reason = "timeout"

	// ReasonConnection: the connection broke or could not be made.
	ReasonConnection Reason = "connection"

	// ReasonCanceled: the caller gave up waiting.
	ReasonCanceled Reason = "canceled"

	// ReasonOther: anything else, for instance a lost prepared statement (DEALLOCATE ALL), a missing privilege, a wrong
	// password. Nothing says that it is for ever, so nothing is dropped for it.
	ReasonOther Reason = "other"
)

// classify is the one place that tells failures apart. Only ReasonPayload is about what was sent; after every other
// one the batch is kept, the connection is dropped, and the batch is sent again after a wait.
func classify(err error) Reason {
	if err == nil {
		return ""
	}

	// What the server said comes first: a wrapped SQLSTATE is more exact than the network error around it. The interface
	// is what pgconn.PgError has, and the errors of other drivers too.
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return classifyState(server.SQLState())
	}

	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return ReasonCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return ReasonTimeout
	case errors.As(err, &network), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return ReasonConnection
	}
	return ReasonOther
}

// classifyState sorts SQLSTATEs, exact codes before their class.
func classifyState(code string) Reason {
	switch code {
	case "25006": // read_only_sql_transaction: also "cannot execute NOTIFY during recovery"
		return ReasonReadOnly
	case "57014": // query_canceled: statement_timeout, pg_cancel_backend
		return ReasonTimeout
	case "54000": // program_limit_exceeded: too many notifications in the NOTIFY queue
		return ReasonCapacity
	}
	switch {
	case strings.HasPrefix(code, "22"): // data exception
		return ReasonPayload
	case strings.HasPrefix(code, "57"): // operator intervention
		return ReasonShutdown
	case strings.HasPrefix(code, "53"): // insufficient resources
		return ReasonCapacity
	case strings.HasPrefix(code, "08"): // connection exception
		return ReasonConnection
	}
	return ReasonOther
}
