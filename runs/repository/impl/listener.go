package impl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

const (
	listenerSuffix = "notify-listener"

	// listenDialTimeout bounds one attempt to connect and LISTEN.
	listenDialTimeout = 5 * time.Second
	// listenWait is how long the listener waits on the socket at a time; Ping is answered in between.
	listenWait = time.Second
	// listenPingTimeout bounds one round trip to the server, pingTimeout all of Ping.
	listenPingTimeout = 5 * time.Second
	pingTimeout       = 10 * time.Second

	listenBackoffMin = 50 * time.Millisecond
	listenBackoffMax = 5 * time.Second
)

var errListenerClosed = errors.New("notify listener is closed")

// notification is one payload heard on one channel.
type notification struct {
	Channel string
	Extra   string
}

// listener hears notifications on a connection of its own and connects again when that breaks. What is sent while it is not connected is not
// heard: PostgreSQL keeps nothing for it.
type listener struct {
	// Notify gives what is heard, in order. It is never closed.
	Notify <-chan *notification

	notify   chan *notification
	channels []string
	config   *pgx.ConnConfig
	pings    chan chan error // Ping's requests to the goroutine that owns the connection
	cancel   context.CancelFunc
	ended    chan struct{}
}

// newListener starts a listener on channels. Error: dsn cannot be parsed.
func newListener(dsn string, channels ...string) (*listener, error) {
	config, err := connConfig(dsn, listenerSuffix)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	notify := make(chan *notification)
	l := &listener{
		Notify:   notify,
		notify:   notify,
		channels: channels,
		config:   config,
		pings:    make(chan chan error),
		cancel:   cancel,
		ended:    make(chan struct{}),
	}
	go l.run(ctx)
	return l, nil
}

// Ping asks the server for a sign of life and tells why there is none. It takes at most 10 s.
func (l *listener) Ping() error {
	deadline := time.NewTimer(pingTimeout)
	defer deadline.Stop()
	reply := make(chan error, 1)
	requests := l.pings
	for {
		select {
		case requests <- reply:
			requests = nil
		case err := <-reply:
			return err
		case <-l.ended:
			return errListenerClosed
		case <-deadline.C:
			return fmt.Errorf("ping of the notify listener within %s: %w", pingTimeout, context.DeadlineExceeded)
		}
	}
}

// close ends the listener. Called once.
func (l *listener) close(ctx context.Context) error {
	l.cancel()
	return awaitEnd(ctx, l.ended, "notify listener")
}

// run connects and listens, over and over, until ctx ends.
func (l *listener) run(ctx context.Context) {
	defer close(l.ended)
	backoff := listenBackoffMin
	for {
		heard, err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			backoff = listenBackoffMin
		}
		logger.Warnf(ctx, "notify listener lost its connection, next try in %s: %v", backoff, err)
		if !l.pause(ctx, backoff, err) {
			return
		}
		backoff = min(2*backoff, listenBackoffMax)
	}
}

// pause waits, answering pings with the reason for the wait. It tells whether to go on.
func (l *listener) pause(ctx context.Context, wait time.Duration, reason error) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case reply := <-l.pings:
			reply <- fmt.Errorf("notify listener is not connected: %w", reason)
		case <-ctx.Done():
			return false
		}
	}
}

// listen connects once and forwards what it hears until that fails. It tells whether it got as far as listening.
func (l *listener) listen(ctx context.Context) (listening bool, err error) {
	dialCtx, cancel := context.WithTimeout(ctx, listenDialTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(dialCtx, l.config)
	if err != nil {
		return false, fmt.Errorf("connect within %s: %w", listenDialTimeout, err)
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		// Whatever goes wrong here, the socket is closed.
		_ = conn.Close(closeCtx)
	}()
	for _, channel := range l.channels {
		if _, err := conn.Exec(dialCtx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return false, fmt.Errorf("listen on %s within %s: %w", channel, listenDialTimeout, err)
		}
	}
	logger.Infof(ctx, "notify listener is connected")
	return true, l.forward(ctx, conn)
}

// forward hands on what conn hears and answers pings, until conn fails or ctx ends.
func (l *listener) forward(ctx context.Context, conn *pgx.Conn) error {
	for {
		select {
		case reply := <-l.pings:
			if err := ping(ctx, conn, reply); err != nil {
				return err
			}
		default:
		}

		waitCtx, cancel := context.WithTimeout(ctx, listenWait)
		heard, err := conn.WaitForNotification(waitCtx)
		quiet := waitCtx.Err() != nil && ctx.Err() == nil && !conn.IsClosed()
		cancel()
		if err != nil {
			if quiet {
				continue
			}
			return fmt.Errorf("wait for a notification: %w", err)
		}

		for next := (&notification{Channel: heard.Channel, Extra: heard.Payload}); next != nil; {
			select {
			case l.notify <- next:
				next = nil
			case reply := <-l.pings:
				// Whoever takes notifications may be the one that asks.
				if err := ping(ctx, conn, reply); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// ping makes one round trip on conn and replies with its outcome, which it also returns.
func ping(ctx context.Context, conn *pgx.Conn, reply chan<- error) error {
	pingCtx, cancel := context.WithTimeout(ctx, listenPingTimeout)
	defer cancel()
	err := conn.Ping(pingCtx)
	if err != nil {
		err = fmt.Errorf("ping within %s: %w", listenPingTimeout, err)
	}
	reply <- err
	return err
}
