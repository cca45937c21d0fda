package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A load's client shares the machine with the server, and what it uses up the server lacks. So the statements that are repeated by the
// thousand go to the connection without what makes pgx convenient: the look-up of statements and types, and the
// goroutine that watches a context during each call. Limits are set on the socket instead.

// Call is one execution of a prepared statement, with its parameters as text.
type Call struct {
	Statement *pgconn.StatementDescription
	Params    [][]byte
}

// Exec executes the calls in one round trip and one transaction, within Timeout.
func Exec(conn *pgx.Conn, calls ...Call) error {
	pg := conn.PgConn()
	if err := pg.Conn().SetDeadline(time.Now().Add(Timeout)); err != nil {
		return err
	}
	var err error
	if len(calls) == 1 {
		_, err = pg.ExecStatement(context.Background(), calls[0].Statement, calls[0].Params, nil, nil).Close()
	} else {
		var batch pgconn.Batch
		for _, c := range calls {
			batch.ExecStatement(c.Statement, c.Params, nil, nil)
		}
		err = pg.ExecBatch(context.Background(), &batch).Close()
	}
	if timedOut(err) {
		return fmt.Errorf("no answer within %s: %w", Timeout, err)
	}
	return err
}

// Prepare prepares a statement for Exec.
func Prepare(ctx context.Context, conn *pgx.Conn, name, sql string) (*pgconn.StatementDescription, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	statement, err := conn.Prepare(ctx, name, sql)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	return statement, nil
}

// Hear reads notifications, which go where Connect was told, until done says so after one of them, or ctx ends: then it returns
// the cause. The connection is good for nothing more after an error.
func Hear(ctx context.Context, conn *pgx.Conn, done func() bool) error {
	pg := conn.PgConn()
	if err := pg.Conn().SetDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = pg.Conn().SetReadDeadline(time.Unix(1, 0)) }) // fails on a closed one only
	defer stop()
	for !done() {
		if err := pg.WaitForNotification(context.Background()); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
	return nil
}

func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
