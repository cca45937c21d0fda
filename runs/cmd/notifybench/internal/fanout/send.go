package fanout

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

// sender is how the notifiers of a run send.
type sender interface {
	// all has every notifier send until ctx ends, and returns when everything is confirmed, with the number of statements.
	all(ctx context.Context) (statements int64)
	close()
}

func (l *load) openSend(ctx context.Context, mode string) (sender, error) {
	if mode == Batched {
		return l.openBatched()
	}
	return l.openSingle(ctx)
}

// single is a connection for each notifier, and a statement for each payload.
type single struct {
	*load
	conns      []*pgx.Conn
	statements []*pgconn.StatementDescription
}

func (l *load) openSingle(ctx context.Context) (*single, error) {
	s := &single{load: l, conns: make([]*pgx.Conn, l.cfg.Notifiers), statements: make([]*pgconn.StatementDescription, l.cfg.Notifiers)}
	group, dialCtx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for notifier := range s.conns {
		group.Go(func() (err error) {
			if s.conns[notifier], err = l.srv.Connect(dialCtx, nil); err != nil {
				return fmt.Errorf("notifier %d: %w", notifier, err)
			}
			if s.statements[notifier], err = server.Prepare(dialCtx, s.conns[notifier], "notify", "SELECT pg_notify($1, $2)"); err != nil {
				return fmt.Errorf("notifier %d: %w", notifier, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *single) all(ctx context.Context) int64 {
	var wg sync.WaitGroup
	for notifier := range s.conns {
		wg.Go(func() {
			if err := s.notify(ctx, notifier); err != nil {
				s.fail("notifier %d: %v", notifier, err)
			}
		})
	}
	wg.Wait()
	return s.load.Bench.sent.Load()
}

// notify sends on all channels by turns. A statement under way when ctx ends is waited for, so that what was sent is known.
func (s *single) notify(ctx context.Context, notifier int) error {
	counts := s.sent[notifier]
	for channel := 0; ctx.Err() == nil; channel = (channel + 1) % len(s.channels) {
		payload := format(notifier, counts[channel], time.Since(s.base))
		call := server.Call{Statement: s.statements[notifier], Params: [][]byte{[]byte(s.channels[channel]), []byte(payload)}}
		if err := server.Exec(s.conns[notifier], call); err != nil {
			return err
		}
		counts[channel]++
		s.load.Bench.sent.Add(1)
	}
	return nil
}

func (s *single) close() {
	for _, conn := range s.conns {
		if conn != nil {
			server.Disconnect(conn)
		}
	}
}

// batched is one pump for all notifiers, as a service has it.
type batched struct {
	*load
	pump   *pgnotify.Pump
	sender *pgnotify.Sender
	room   *semaphore.Weighted // for payloads that are not confirmed yet
}

func (l *load) openBatched() (*batched, error) {
	pump, err := pgnotify.NewPump(l.channels...)
	if err != nil {
		return nil, err
	}
	sender, err := pgnotify.NewSender(pgnotify.SenderConfig{DSN: l.srv.DSN()})
	if err != nil {
		return nil, err
	}
	return &batched{load: l, pump: pump, sender: sender, room: semaphore.NewWeighted(int64(l.cfg.Pending))}, nil
}

func (b *batched) all(ctx context.Context) int64 {
	sendCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for channel := range b.pump.Due() {
			outcome := b.sender.Send(sendCtx, b.pump.Take(channel))
			b.pump.Settle(outcome)
			b.room.Release(int64(len(outcome.Batch.Entries) - len(outcome.Undelivered)))
		}
	}()

	var wg sync.WaitGroup
	for notifier := range b.sent {
		wg.Go(func() { b.notify(ctx, notifier) })
	}
	wg.Wait()

	closeCtx, cancelClose := context.WithTimeout(sendCtx, server.Timeout)
	defer cancelClose()
	if _, err := b.pump.Close(closeCtx); err != nil {
		b.fail("%v", err)
	}
	cancel()
	<-ended
	return int64(b.sender.Stats().Statements)
}

// notify adds on all channels by turns, as long as there is room: a load without a limit would measure its own backlog.
func (b *batched) notify(ctx context.Context, notifier int) {
	counts := b.sent[notifier]
	for channel := 0; b.room.Acquire(ctx, 1) == nil; channel = (channel + 1) % len(b.channels) {
		b.pump.Add(b.channels[channel], format(notifier, counts[channel], time.Since(b.base)))
		counts[channel]++
		b.load.Bench.sent.Add(1)
	}
}

func (b *batched) close() { _ = b.sender.Close() } // nothing is under way any more
