package fanout

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

// The marks on each channel. Every other payload is "notifier number nanoseconds-since-base".
const (
	beginMark = "begin"
	endMark   = "end"
)

// dialsAtOnce keeps a server from a thousand log-ins in the same moment.
const dialsAtOnce = 16

// ears are all listeners of a run, and the connection on which they are told begin and end.
type ears struct {
	load   *load
	all    []*ear
	marker *pgx.Conn
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// ear is one listener. Its fields are its goroutine's until that has ended.
type ear struct {
	hearing
	load    *load
	conn    *pgx.Conn
	begun   chan struct{} // closed when it has heard the begin
	begins  int
	last    time.Duration // of the last payload, since base
	decades decades
}

// openEars connects all listeners and has them listen.
func (l *load) openEars(ctx context.Context) (*ears, error) {
	e := &ears{load: l}
	for i := range l.cfg.Listeners {
		e.all = append(e.all, &ear{
			hearing: hearing{listener: i, channel: i % l.cfg.Channels, by: make([]tracker, l.cfg.Notifiers)},
			load:    l, begun: make(chan struct{}),
		})
	}
	group, dialCtx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for _, one := range e.all {
		group.Go(func() error { return one.open(dialCtx) })
	}
	err := group.Wait()
	if err == nil {
		e.marker, err = l.srv.Connect(ctx, nil)
	}
	var listenCtx context.Context
	listenCtx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err != nil {
		e.close()
		return nil, err
	}
	for _, one := range e.all {
		e.wg.Go(func() { one.listen(listenCtx) })
	}
	return e, nil
}

func (e *ear) open(ctx context.Context) (err error) {
	if e.conn, err = e.load.srv.Connect(ctx, e.hear); err != nil {
		return fmt.Errorf("listener %d: %w", e.listener, err)
	}
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	if _, err := e.conn.Exec(ctx, "LISTEN "+e.load.channels[e.channel]); err != nil {
		return fmt.Errorf("listener %d: LISTEN: %w", e.listener, err)
	}
	return nil
}

// listen reads until the end has been heard.
func (e *ear) listen(ctx context.Context) {
	e.err = server.Hear(ctx, e.conn, func() bool { return e.ended })
}

// hear takes in what the connection has read; it is called from within listen.
func (e *ear) hear(n *pgconn.Notification) {
	switch n.Payload {
	case beginMark:
		if e.begins++; e.begins == 1 {
			close(e.begun)
		} else {
			e.foreign++
		}
		return
	case endMark:
		e.ended = true
		return
	}
	now := time.Since(e.load.base)
	notifier, number, sent, ok := parse(n.Payload, len(e.by))
	if !ok {
		e.foreign++
		return
	}
	e.by[notifier].hear(number)
	e.last = now
	latency := now - sent
	e.decades.add(latency)
	e.load.latency.Record(latency)
	e.load.received.Add(1)
}

func format(notifier int, number int64, sent time.Duration) string {
	b := make([]byte, 0, 40)
	b = strconv.AppendInt(b, int64(notifier), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, number, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(sent), 10)
	return string(b)
}

func parse(payload string, notifiers int) (notifier int, number int64, sent time.Duration, ok bool) {
	first, rest, _ := strings.Cut(payload, " ")
	second, third, _ := strings.Cut(rest, " ")
	notifier, err1 := strconv.Atoi(first)
	number, err2 := strconv.ParseInt(second, 10, 64)
	nanos, err3 := strconv.ParseInt(third, 10, 64)
	ok = err1 == nil && err2 == nil && err3 == nil && notifier >= 0 && notifier < notifiers && number >= 0
	return notifier, number, time.Duration(nanos), ok
}

// mark sends one payload on all channels, in one transaction.
func (e *ears) mark(ctx context.Context, payload string) error {
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	_, err := e.marker.Exec(ctx, "SELECT pg_notify(channel, $2) FROM unnest($1::text[]) AS channel", e.load.channels, payload)
	return err
}

// begin makes sure that every listener hears what is sent, and starts the clock.
func (e *ears) begin(ctx context.Context) error {
	if err := e.mark(ctx, beginMark); err != nil {
		return fmt.Errorf("mark the begin: %w", err)
	}
	limit := time.NewTimer(server.Timeout)
	defer limit.Stop()
	for _, one := range e.all {
		select {
		case <-one.begun:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("listener %d has not heard the first notification within %s: a connection pooler in transaction mode does not pass LISTEN on",
				one.listener, server.Timeout)
		}
	}
	e.load.begin = time.Since(e.load.base)
	return nil
}

// end tells the listeners that there is no more to come, and waits until they have heard it, at most for settle.
func (e *ears) end(ctx context.Context, settle time.Duration) error {
	err := e.mark(ctx, endMark)
	if err != nil {
		settle = 0 // nobody will hear it
	}
	limit := time.AfterFunc(settle, func() { e.cancel(e.late(settle)) })
	defer limit.Stop()
	e.wg.Wait()
	return err
}

func (e *ears) late(settle time.Duration) error {
	return fmt.Errorf("not at the end %s after the last send (%s received by all)", settle, report.Count(e.load.received.Load()))
}

func (e *ears) close() {
	e.cancel(errors.New("the run is over"))
	e.wg.Wait()
	for _, one := range e.all {
		if one.conn != nil {
			server.Disconnect(one.conn)
		}
	}
	if e.marker != nil {
		server.Disconnect(e.marker)
	}
}
