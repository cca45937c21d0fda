package stream

import (
	"context"
	"strconv"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

// payload names the stream that has more.
func payload(stream int) string { return strconv.Itoa(stream) }

// announcer is what a writer calls after its commit: the pump in mode buffered, nothing in the others.
type announcer struct {
	load   *load
	pump   *pgnotify.Pump // nil in the others
	sender *pgnotify.Sender
	hurry  chan struct{} // closed when the pump is to wait no more between statements
	ended  chan struct{}
	cancel context.CancelFunc

	flushed bool
}

func (l *load) openAnnouncer() (*announcer, error) {
	a := &announcer{load: l}
	if l.mode != Buffered {
		return a, nil
	}
	pump, err := pgnotify.NewPump(l.channel)
	if err != nil {
		return nil, err
	}
	a.sender, err = pgnotify.NewSender(pgnotify.SenderConfig{DSN: l.srv.DSN()})
	if err != nil {
		return nil, err
	}
	a.pump, a.hurry, a.ended = pump, make(chan struct{}), make(chan struct{})
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(a.ended)
		for channel := range pump.Due() {
			began := time.Now()
			pump.Settle(a.sender.Send(ctx, pump.Take(channel)))
			a.pause(l.cfg.Flush - time.Since(began))
		}
	}()
	return a, nil
}

// pause keeps the pump from its next statement, so that more gathers for it.
func (a *announcer) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.hurry:
	}
}

// row announces a row of the stream.
func (a *announcer) row(stream int) {
	if a.pump != nil {
		a.pump.Add(a.load.channel, payload(stream))
	}
}

// flush returns when everything has been announced, or after the limit. It is called once the writers have ended; a second call does
// nothing.
func (a *announcer) flush(limit time.Duration) {
	if a.pump == nil || a.flushed {
		return
	}
	a.flushed = true
	close(a.hurry)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := a.pump.Close(ctx); err != nil {
		a.load.fail("%v", err)
	}
	a.cancel()
	<-a.ended
}

// close ends what a run that ended early has not.
func (a *announcer) close() {
	if a.pump != nil {
		a.flush(server.Timeout)
		_ = a.sender.Close() // nothing is under way any more
	}
}

// counts returns what the pump has sent, and what it did not have to.
func (a *announcer) counts() (statements, folded int64) {
	if a.pump == nil {
		return 0, 0
	}
	return int64(a.sender.Stats().Statements), int64(a.pump.Stats(a.load.channel).Coalesced)
}
