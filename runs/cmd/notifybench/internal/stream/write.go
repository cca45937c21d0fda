package stream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

// dialsAtOnce keeps a server from a thousand log-ins in the same moment.
const dialsAtOnce = 16

// notifySQL is what the writers of mode intx send along with the row.
const notifySQL = "SELECT pg_notify($1, $2)"

// writers are a connection each.
type writers struct {
	*load
	conns []*pgx.Conn
}

func (l *load) openWriters(ctx context.Context) (*writers, error) {
	w := &writers{load: l, conns: make([]*pgx.Conn, l.cfg.Writers)}
	group, dialCtx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for writer := range w.conns {
		group.Go(func() error {
			if err := w.open(dialCtx, writer); err != nil {
				return fmt.Errorf("writer %d: %w", writer, err)
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

func (w *writers) open(ctx context.Context, writer int) (err error) {
	if w.conns[writer], err = w.srv.Connect(ctx, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	for _, sql := range []string{w.table.insertSQL(), notifySQL} {
		if _, err := w.conns[writer].Prepare(ctx, sql, sql); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return nil
}

// all has every writer write until ctx ends, and returns when every commit is confirmed.
func (w *writers) all(ctx context.Context, announce *announcer) {
	var wg sync.WaitGroup
	began := time.Now()
	for writer := range w.conns {
		wg.Go(func() {
			if err := w.write(ctx, writer, began, announce); err != nil {
				w.fail("writer %d: %v", writer, err)
			}
		})
	}
	wg.Wait()
}

// write appends to the writer's streams by turns. A transaction under way when ctx ends is waited for, so that what was written is known.
func (w *writers) write(ctx context.Context, writer int, began time.Time, announce *announcer) error {
	insert := w.table.insertSQL()
	for n := 0; w.due(ctx, writer, n, began); n++ {
		stream := w.streamOf(writer, n)
		seq := w.rows[stream] + 1
		execCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), server.Timeout)
		sent := time.Now()
		err := w.append(execCtx, w.conns[writer], insert, stream, seq, writer)
		cancel()
		if err != nil {
			return err
		}
		w.writeLatency.Record(time.Since(sent))
		w.rows[stream] = seq
		w.written.Add(1)
		announce.row(stream)
	}
	return nil
}

// streamOf returns which of its streams a writer appends its nth row to.
func (w *writers) streamOf(writer, n int) int {
	own := (w.cfg.Streams - writer + w.cfg.Writers - 1) / w.cfg.Writers
	return writer + n%own*w.cfg.Writers
}

// due waits until the writer's nth row is to be written; false when there is no more time.
func (w *writers) due(ctx context.Context, writer, n int, began time.Time) bool {
	if w.cfg.Rate == 0 {
		return ctx.Err() == nil
	}
	// All writers' rows are spread evenly: writer 0's first, writer 1's first, …, writer 0's second.
	turn := float64(n*w.cfg.Writers + writer)
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
func (w *writers) append(ctx context.Context, conn *pgx.Conn, insert string, stream int, seq int64, writer int) error {
	if w.mode != InTx {
		_, err := conn.Exec(ctx, insert, stream, seq, writer, body)
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(insert, stream, seq, writer, body)
	batch.Queue(notifySQL, w.channel, payload(stream))
	return conn.SendBatch(ctx, batch).Close()
}

func (w *writers) close() {
	for _, conn := range w.conns {
		if conn != nil {
			server.Disconnect(conn)
		}
	}
}
