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

// readers are a connection each and, but for mode none, one on which the process listens for all of them.
type readers struct {
	*load
	all      []*reader
	of       [][]*reader // by stream
	listener *pgx.Conn   // nil in mode none
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

type reader struct {
	*load
	number int
	conn   *pgx.Conn
	every  time.Duration

	// The reader's goroutine's.
	at map[int]int64 // by stream: the last row read

	wake chan struct{}
	mu   sync.Mutex
	more map[int]struct{} // streams that a notification named
}

func (l *load) openReaders(ctx context.Context) (*readers, error) {
	r := &readers{load: l, of: make([][]*reader, l.cfg.Streams)}
	every := l.cfg.Fallback
	if l.mode == None {
		every = l.cfg.Poll
	}
	for number := range l.cfg.Readers {
		one := &reader{load: l, number: number, every: every, at: map[int]int64{}, wake: make(chan struct{}, 1), more: map[int]struct{}{}}
		for _, stream := range l.cfg.follows(number) {
			one.at[stream] = 0
			r.of[stream] = append(r.of[stream], one)
		}
		r.all = append(r.all, one)
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	if err := r.connect(ctx); err != nil {
		r.close()
		return nil, err
	}
	for _, one := range r.all {
		r.wg.Go(func() { one.run(runCtx) })
	}
	if r.listener != nil {
		r.wg.Go(func() { r.listen(runCtx) })
	}
	return r, nil
}

func (r *readers) connect(ctx context.Context) (err error) {
	group, dialCtx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for _, one := range r.all {
		group.Go(func() (err error) {
			if one.conn, err = r.srv.Connect(dialCtx, nil); err != nil {
				return fmt.Errorf("reader %d: %w", one.number, err)
			}
			prepareCtx, cancel := context.WithTimeout(dialCtx, server.Timeout)
			defer cancel()
			if _, err = one.conn.Exec(prepareCtx, readSettings); err != nil {
				return fmt.Errorf("reader %d: settings: %w", one.number, err)
			}
			if _, err = one.conn.Prepare(prepareCtx, r.table.readSQL(), r.table.readSQL()); err != nil {
				return fmt.Errorf("reader %d: prepare: %w", one.number, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if r.mode == None {
		return nil
	}
	if r.listener, err = r.srv.Connect(ctx, r.heard); err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	if _, err := r.listener.Exec(ctx, "LISTEN "+r.channel); err != nil {
		return fmt.Errorf("LISTEN: %w", err)
	}
	return nil
}

// listen takes in notifications until ctx ends. When it cannot, the readers' fallback finds the rows, and the run is void.
func (r *readers) listen(ctx context.Context) {
	err := server.Hear(ctx, r.listener, func() bool { return false })
	if ctx.Err() == nil {
		r.fail("listener: %v", err)
	}
}

// heard wakes the readers of the stream that a notification names.
func (r *readers) heard(n *pgconn.Notification) {
	stream, err := strconv.Atoi(n.Payload)
	if err != nil || stream < 0 || stream >= len(r.of) {
		r.fail("a notification that nobody sent: %.40q", n.Payload)
		return
	}
	r.load.heard.Add(1)
	for _, one := range r.of[stream] {
		one.mu.Lock()
		one.more[stream] = struct{}{}
		one.mu.Unlock()
		select {
		case one.wake <- struct{}{}:
		default: // awake
		}
	}
}

// run reads on when woken, and by the clock, until ctx ends.
func (r *reader) run(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	everything := make([]int, 0, len(r.at))
	for stream := range r.at {
		everything = append(everything, stream)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			_, err = r.read(ctx, r.named(), &r.reads)
		case <-tick.C:
			var rows int64
			rows, err = r.read(ctx, everything, &r.polls)
			r.polledRows.Add(rows)
		}
		if err != nil {
			if ctx.Err() == nil {
				r.fail("reader %d: %v", r.number, err)
			}
			return
		}
	}
}

// named takes the streams that notifications named since the last time.
func (r *reader) named() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	streams := make([]int, 0, len(r.more))
	for stream := range r.more {
		streams = append(streams, stream)
	}
	clear(r.more)
	return streams
}

// read reads on in the streams until a page ends none of them, and returns the number of rows.
func (r *reader) read(ctx context.Context, streams []int, statements interface{ Add(int64) int64 }) (rows int64, err error) {
	for len(streams) > 0 {
		statements.Add(1)
		var full []int
		n, err := r.page(ctx, streams, &full)
		rows += n
		if err != nil {
			return rows, err
		}
		streams = full
	}
	return rows, nil
}

// page reads the next rows of the streams, and notes which of them may have more.
func (r *reader) page(ctx context.Context, streams []int, full *[]int) (int64, error) {
	last := make([]int64, len(streams))
	for i, stream := range streams {
		last[i] = r.at[stream]
	}
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	rows, err := r.conn.Query(ctx, r.table.readSQL(), streams, last)
	if err != nil {
		return 0, err
	}
	var (
		stream      int
		seq         int64
		at          time.Time
		writtenAt   []time.Time
		perStream   = map[int]int{}
		fresh, gone int64
	)
	_, err = pgx.ForEachRow(rows, []any{&stream, &seq, &at}, func() error {
		fresh++
		if seq != r.at[stream]+1 {
			gone++
		}
		r.at[stream] = seq
		writtenAt = append(writtenAt, at)
		if perStream[stream]++; perStream[stream] == pageRows {
			*full = append(*full, stream)
		}
		return nil
	})
	now := time.Now()
	for _, at := range writtenAt {
		r.latency.Record(r.clock.Since(at, now))
	}
	r.load.read.Add(fresh)
	r.disordered.Add(gone)
	select {
	case r.nudge <- struct{}{}:
	default:
	}
	return fresh, err
}

// close ends everything. A second call does nothing.
func (r *readers) close() {
	r.cancel()
	r.wg.Wait()
	for _, one := range r.all {
		if one.conn != nil {
			server.Disconnect(one.conn)
		}
	}
	if r.listener != nil {
		server.Disconnect(r.listener)
	}
}
