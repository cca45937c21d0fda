package impl

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

const (
	// serialQueueCapacity is how many payloads of one channel wait before a writer has to.
	serialQueueCapacity = 256

	// notifyDialTimeout and notifyExecTimeout bound one attempt to connect and one statement.
	notifyDialTimeout = 5 * time.Second
	notifyExecTimeout = 5 * time.Second

	// pumpSuffix is what the application_name of a pump's connection ends in, for whoever reads pg_stat_activity.
	pumpSuffix = "notify-pump"
)

// serialPump is the pump of mode serial: one statement and one round trip per payload, on one connection. A writer whose queue is full waits
// for room. A payload whose statement fails is logged and dropped. It stays what it is on purpose, to be compared with.
type serialPump struct {
	queues map[string]chan string // by channel, fixed after construction

	// Writers hold mu for reading while they hand over a payload. close takes it for writing, so no writer meets a closed queue.
	mu      sync.RWMutex
	closed  bool
	closing chan struct{} // closed first, to let go of the writers that wait for room

	cancel context.CancelFunc // ends the statement that is running
	ended  chan struct{}      // closed by the loop at its end; left is valid from then on
	left   int                // payloads not sent, for want of time to
}

// newSerialPump starts the pump. It connects when the first payload comes. Error: dsn cannot be parsed.
func newSerialPump(dsn string) (*serialPump, error) {
	config, err := connConfig(dsn, pumpSuffix)
	if err != nil {
		return nil, err
	}
	// A notification survives no crash of the server anyway; waiting for the disk would only slow the pump down.
	config.RuntimeParams["synchronous_commit"] = "off"

	ctx, cancel := context.WithCancel(context.Background())
	p := &serialPump{
		queues: map[string]chan string{
			runUpdatesChannel:    make(chan string, serialQueueCapacity),
			actionUpdatesChannel: make(chan string, serialQueueCapacity),
		},
		closing: make(chan struct{}),
		cancel:  cancel,
		ended:   make(chan struct{}),
	}
	go p.run(ctx, config)
	return p, nil
}

// notify hands over one payload. It may be called from any goroutine. It blocks while 256 payloads of the channel wait, until one has left or the pump is closed.
func (p *serialPump) notify(ctx context.Context, channel, payload string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.closed {
		select {
		case p.queues[channel] <- payload:
			return
		case <-p.closing:
		}
	}
	logger.Warnf(ctx, "notification on %s of %q came after the end of the pump and is not sent", channel, payload)
}

// close sends what is waiting as far as ctx allows and ends the pump; the error says how much was not sent. Called once.
func (p *serialPump) close(ctx context.Context) error {
	close(p.closing)
	p.mu.Lock()
	p.closed = true
	for _, queue := range p.queues {
		close(queue)
	}
	p.mu.Unlock()

	// The loop ends when it has sent what the queues still hold, or, told to hurry, has counted it.
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.cancel()
		<-p.ended
	}
	p.cancel()
	if p.left > 0 {
		return fmt.Errorf("notify pump: %d notifications not sent in time: %w", p.left, context.Cause(ctx))
	}
	return nil
}

// run sends what the queues hold until both are closed and empty.
func (p *serialPump) run(ctx context.Context, config *pgx.ConnConfig) {
	defer close(p.ended)
	conn := &serialConn{config: config}
	defer conn.close(ctx)

	// drainAndExec sends payload and what is queued behind it by now. What comes later has to wait for the other channel's turn.
	drainAndExec := func(channel, payload string) {
		queue := p.queues[channel]
		for waiting := len(queue); ; waiting-- {
			if ctx.Err() != nil {
				p.left++
			} else if err := conn.exec(ctx, channel, payload); err != nil {
				logger.Errorf(ctx, "dropping notification on %s of %q: %v", channel, payload, err)
			}
			if waiting == 0 {
				return
			}
			payload = <-queue // only this goroutine receives, so the waiting ones are still there
		}
	}

	runs, actions := p.queues[runUpdatesChannel], p.queues[actionUpdatesChannel]
	for runs != nil || actions != nil {
		select {
		case payload, open := <-runs:
			if !open {
				runs = nil
				continue
			}
			drainAndExec(runUpdatesChannel, payload)
		case payload, open := <-actions:
			if !open {
				actions = nil
				continue
			}
			drainAndExec(actionUpdatesChannel, payload)
		}
	}
}

// serialConn is the pump's connection. It belongs to the loop's goroutine.
type serialConn struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil or closed: not connected
}

// exec sends one payload, connecting first where needed.
func (c *serialConn) exec(ctx context.Context, channel, payload string) error {
	if c.conn == nil || c.conn.IsClosed() {
		dialCtx, cancel := context.WithTimeout(ctx, notifyDialTimeout)
		defer cancel()
		conn, err := pgx.ConnectConfig(dialCtx, c.config)
		if err != nil {
			return fmt.Errorf("connect within %s: %w", notifyDialTimeout, err)
		}
		c.conn = conn
	}
	execCtx, cancel := context.WithTimeout(ctx, notifyExecTimeout)
	defer cancel()
	if _, err := c.conn.Exec(execCtx, "SELECT pg_notify($1, $2)", channel, payload); err != nil {
		return fmt.Errorf("pg_notify within %s: %w", notifyExecTimeout, err)
	}
	return nil
}

// close says goodbye to the server, for which it takes a second at most, and none when ctx has ended.
func (c *serialConn) close(ctx context.Context) {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	// Whatever goes wrong here, the socket is closed.
	_ = c.conn.Close(ctx)
}
