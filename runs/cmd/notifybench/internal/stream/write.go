package stream

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

// dialsAtOnce keeps a server from a thousand log-ins in the same moment.
const dialsAtOnce = 16

// notifySQL is what the writers of mode intx send along with the row.
const notifySQL = "SELECT pg_notify($1, $2)"

// writer is a connection that appends to streams of its own.
type writer struct {
	*load
	number         int
	conn           *pgx.Conn
	insert, notify *pgconn.StatementDescription
}

type writers struct {
	*load
	all []*writer
}

func (l *load) openWriters(ctx context.Context) (*writers, error) {
	w := &writers{load: l}
	group, dialCtx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for number := range l.cfg.Writers {
		one := &writer{load: l, number: number}
		w.all = append(w.all, one)
		group.Go(func() error {
			if err := one.open(dialCtx); err != nil {
				return fmt.Errorf("writer %d: %w", number, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *writer) open(ctx context.Context) (err error) {
	if w.conn, err = w.srv.Connect(ctx, nil); err != nil {
		return err
	}
	if w.insert, err = server.Prepare(ctx, w.conn, "insert", w.table.insertSQL()); err != nil {
		return err
	}
	w.notify, err = server.Prepare(ctx, w.conn, "notify", notifySQL)
	return err
}

// write has every writer write until ctx ends, and returns when every commit is confirmed.
func (w *writers) write(ctx context.Context, announce *announcer) {
	var wg sync.WaitGroup
	began := time.Now()
	for _, one := range w.all {
		wg.Go(func() {
			if err := one.write(ctx, began, announce); err != nil {
				w.fail("writer %d: %v", one.number, err)
			}
		})
	}
	wg.Wait()
}

// write appends to the writer's streams by turns. A transaction under way when ctx ends is waited for, so that what was written is known.
func (w *writer) write(ctx context.Context, began time.Time, announce *announcer) error {
	for n := 0; w.due(ctx, n, began); n++ {
		stream := w.cfg.streamOf(w.number, n)
		seq := w.rows[stream] + 1
		sent := time.Now()
		if err := w.append(stream, seq); err != nil {
			return err
		}
		w.writeLatency.Record(time.Since(sent))
		w.rows[stream] = seq
		w.written.Add(1)
		announce.row(stream)
	}
	return nil
}

// due waits until the writer's nth row is to be written; false when there is no more time.
func (w *writer) due(ctx context.Context, n int, began time.Time) bool {
	if w.cfg.Rate == 0 {
		return ctx.Err() == nil
	}
	// All writers' rows are spread evenly: writer 0's first, writer 1's first, …, writer 0's second.
	turn := float64(n*w.cfg.Writers + w.number)
	wait := time.Until(began.Add(time.Duration(turn / w.cfg.Rate * float64(time.Second))))
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// append writes a row in one round trip and one transaction, in mode intx with the notification in it.
func (w *writer) append(stream int, seq int64) error {
	name := []byte(payload(stream))
	row := server.Call{Statement: w.insert, Params: [][]byte{name, strconv.AppendInt(nil, seq, 10), strconv.AppendInt(nil, int64(w.number), 10), []byte(body)}}
	if w.mode != InTx {
		return server.Exec(w.conn, row)
	}
	return server.Exec(w.conn, row, server.Call{Statement: w.notify, Params: [][]byte{[]byte(w.channel), name}})
}

func (w *writers) close() {
	for _, one := range w.all {
		if one.conn != nil {
			server.Disconnect(one.conn)
		}
	}
}
