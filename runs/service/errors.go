package service

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

// slowError is the cause of a context that ended because our own limit passed, as against the client's.
type slowError struct{ limit time.Duration }

func errSlow(limit time.Duration) error { return &slowError{limit} }

func (e *slowError) Error() string {
	return fmt.Sprintf("the database did not answer within %s", e.limit)
}

func (e *slowError) Is(target error) bool { return target == context.DeadlineExceeded }

func invalidArgument(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// failureLines writes about requests that fail through no fault of their clients. While the database is away every one of them does, some
// thousand a second.
var failureLines logger.Fold

// connectError gives err the code that tells the client what to do about it. What is our fault, and what the client cannot mend, goes
// to the log in full. The client reads it in our own words, since it may quote statements and addresses.
func connectError(ctx context.Context, procedure string, err error) *connect.Error {
	if known, ok := errors.AsType[*connect.Error](err); ok {
		return known
	}
	code := codeOf(ctx, err)
	switch code {
	case connect.CodeInternal:
		failureLines.Errorf(ctx, "internal: "+procedure+" "+sqlState(err), "%s: %v", procedure, err)
	case connect.CodeUnavailable:
		failureLines.Warnf(ctx, "unavailable", "a request failed for want of the database: %s: %v", procedure, err)
	}
	return connect.NewError(code, forClient(ctx, code, err))
}

// forClient is what a client is told of err, whose code is given.
func forClient(ctx context.Context, code connect.Code, err error) error {
	switch code {
	case connect.CodeNotFound:
		if missing, ok := errors.AsType[*interfaces.NotFoundError](err); ok {
			return missing
		}
		return errors.New("not found")
	case connect.CodeInvalidArgument:
		return err // names the value
	case connect.CodeAborted:
		return errors.New("the request collided with another one: try again")
	case connect.CodeDeadlineExceeded:
		return errors.New("the deadline of the request has passed")
	case connect.CodeCanceled:
		return errors.New("the request was canceled")
	case connect.CodeUnavailable:
		for _, ended := range []error{context.Cause(ctx), err} {
			if slow, ok := errors.AsType[*slowError](ended); ok {
				return slow
			}
		}
		return errors.New("the database is not available")
	default:
		return errors.New("internal error")
	}
}

// sqlState is PostgreSQL's code for err; empty when err is not from PostgreSQL.
func sqlState(err error) string {
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok {
		return reply.Code
	}
	return ""
}

// inBand is how the outcome of a request is told inside a response: code 0 for no error.
func inBand(ctx context.Context, procedure string, err error) *status.Status {
	if err == nil {
		return &status.Status{}
	}
	failure := connectError(ctx, procedure, err)
	return &status.Status{Code: int32(failure.Code()), Message: failure.Message()}
}

// codeOf classifies what the repository, or a context, ended with.
func codeOf(ctx context.Context, err error) connect.Code {
	// A context that ended makes the driver report all kinds of things; what ended it is the reason.
	if cause := context.Cause(ctx); cause != nil {
		switch _, ours := errors.AsType[*slowError](cause); {
		case ours:
			return connect.CodeUnavailable
		case errors.Is(cause, context.DeadlineExceeded):
			return connect.CodeDeadlineExceeded
		default:
			return connect.CodeCanceled
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		return connect.CodeNotFound
	}
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok {
		return codeOfReply(reply)
	}
	if isConnectionLoss(err) {
		return connect.CodeUnavailable
	}
	return connect.CodeInternal
}

// codeOfReply goes by the class of the SQLSTATE, its first two characters.
func codeOfReply(reply *pgconn.PgError) connect.Code {
	switch reply.Code[:min(2, len(reply.Code))] {
	case "22": // data exception: a value that the column's type has no place for
		return connect.CodeInvalidArgument
	case "40": // transaction rollback: serialization failure, deadlock; the same request can succeed next time
		return connect.CodeAborted
	case "08", // connection exception
		"53", // insufficient resources: connections, memory, disk
		"57", // operator intervention: shutdown, recovery, killed backend, statement timeout
		"58": // system error: input/output
		return connect.CodeUnavailable
	case "25": // 25006 read only: a failover, and this connection leads to the old primary
		return connect.CodeUnavailable
	default:
		return connect.CodeInternal
	}
}

// isConnectionLoss tells errors of the way to the database from errors of the database.
func isConnectionLoss(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, lost := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, lost) {
			return true
		}
	}
	// database/sql has no value for this one.
	return strings.Contains(err.Error(), "sql: database is closed")
}

// causeOr returns the error of work that was bounded by ctx, still within that bound; past it, one that has the bound's own in it, which
// can no longer be told from the stream's context: that goes on.
func causeOr(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if drained, ok := errors.AsType[*connect.Error](context.Cause(ctx)); ok {
		return drained
	}
	if slow, ok := errors.AsType[*slowError](context.Cause(ctx)); ok {
		return fmt.Errorf("%w: %w", slow, err)
	}
	return err
}
