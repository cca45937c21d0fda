package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// stepLines is how many attempts of an outage that is told get a line each: until the pauses are at their longest.
const stepLines = 8

// healthySpell is how long a connection has to listen for the next pause to be a shortest one again. A server that ends each after just this
// time is bothered about eight times a second.
const healthySpell = backoffMin

// run keeps a connection until ctx ends.
func (l *Listener) run(ctx context.Context) {
	backoff := newBackoff()
	for ctx.Err() == nil {
		lasted, err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		// Longer pauses are for a server that cannot be listened on. One that can, and whose connections are killed again and again,
		// is not helped by them; its watchers would wait for their end.
		if lasted >= healthySpell {
			backoff.reset()
		}
		pause := backoff.next()
		l.down(err, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// listen makes a connection and reads it until it breaks. It returns how long it was listening.
func (l *Listener) listen(ctx context.Context) (lasted time.Duration, err error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer hangUp(conn)
	began := time.Now()
	number := l.connected(conn)
	stay, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	l.follower.follow(l.server, func(led time.Time) {
		// What catch-ups have judged since then by the snapshots of this server may be rows of the other.
		if l.sweeper != nil {
			l.sweeper.lost(led)
		}
		leave(errMoved)
	})
	defer l.follower.stop()
	err = l.serve(stay, conn, number)
	if cause := context.Cause(stay); cause != nil {
		err = cause
	}
	return time.Since(began), err
}

// connect makes a connection that listens on all channels.
func (l *Listener) connect(ctx context.Context) (*pgconn.PgConn, error) {
	cfg := l.session.Copy()
	cfg.OnNotification = l.received
	// Once there is a connection, pgconn dials only to cancel a statement on it when giving it up; there is none worth it, and on a
	// half-open network the dialling would hold up our end.
	var made atomic.Bool
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if made.Load() {
			return nil, errors.New("the connection is being given up")
		}
		return dial(ctx, network, addr)
	}

	dialCtx, cancel := context.WithTimeout(ctx, l.cfg.DialTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(dialCtx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", named(ctx, err, "no connection", l.cfg.DialTimeout))
	}
	made.Store(true)

	l.snapshots = map[uint32]*snapshot{}
	if err := l.prepare(ctx, conn); err != nil {
		hangUp(conn)
		return nil, err
	}
	return conn, nil
}

// prepare makes a new connection listen. The channel of the snapshots comes first, so that no payload comes without its own.
func (l *Listener) prepare(ctx context.Context, conn *pgconn.PgConn) error {
	for _, channel := range append([]string{snapshotChannel}, l.backlog.channels()...) {
		if err := l.exec(ctx, conn, "LISTEN "+quoteIdentifier(channel)); err != nil {
			return err
		}
	}
	execCtx, cancel := context.WithTimeout(ctx, l.cfg.PingTimeout)
	defer cancel()
	var err error
	if l.server, err = serverOf(execCtx, conn); err != nil {
		return fmt.Errorf("ask which server it is: %w", named(ctx, err, "no answer", l.cfg.PingTimeout))
	}
	if l.tested {
		return nil
	}
	switch err := l.selfTest(ctx, conn); {
	case err == nil:
		l.tested = true
	case errors.As(err, new(*sendingError)) && l.cfg.SenderDSN != l.cfg.DSN && ctx.Err() == nil:
		// Whoever sends from there has the same trouble and tells of it. What others send is heard all the same; the next connection is tested.
	default:
		return fmt.Errorf("self-test: %w", err)
	}
	return nil
}

// exec runs a statement without a result, outside any transaction.
func (l *Listener) exec(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	execCtx, cancel := context.WithTimeout(ctx, l.cfg.PingTimeout)
	defer cancel()
	if _, err := conn.Exec(execCtx, sql).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", sql, named(ctx, err, "no answer", l.cfg.PingTimeout))
	}
	return nil
}

// received takes in a notification, in the goroutine that reads the connection, while that waits for one or for the answer to a
// statement.
func (l *Listener) received(_ *pgconn.PgConn, n *pgconn.Notification) {
	switch n.Channel {
	case snapshotChannel:
		at, sent, err := parseSent(n.Payload)
		if err != nil { // then the payloads that follow are not known to have been heard of, and come again
			delete(l.snapshots, n.PID)
			return
		}
		if len(l.snapshots) >= maxSenders {
			clear(l.snapshots)
		}
		l.snapshots[n.PID] = sent
		l.measureLag(at)
	case l.awaited:
		l.heard = true
	default:
		l.notifications.Add(1)
		l.aliveAt = time.Now()
		// Noted before it arrives: a sweep that leaves a row out on this ground may do so, the payload is on its way.
		if sent := l.snapshots[n.PID]; sent != nil && l.sweeper != nil {
			l.seen.saw(n.Channel, n.Payload, sent)
		}
		l.backlog.arrive(n.Channel, n.Payload)
	}
}

// measureLag notes how long a notification that was sent at the given moment of the server's clock was under way.
func (l *Listener) measureLag(at time.Time) {
	// The goroutine that reads the connection is the one that sets the clock. Before the first mark nothing is known of the server's.
	if l.clock.asked.IsZero() {
		return
	}
	lag := max(0, l.clock.since(at))
	l.lag.Store(int64(lag))
	if observe := l.onLag.Load(); observe != nil {
		(*observe)(lag)
	}
}

// maxSenders bounds the senders whose last snapshot is kept.
const maxSenders = 1024

// serve waits for notifications, pings in silence and asks for catch-ups, until the connection breaks or ctx ends.
func (l *Listener) serve(ctx context.Context, conn *pgconn.PgConn, number uint64) error {
	if err := l.requestSweep(ctx, conn, number); err != nil {
		return err
	}
	for {
		if err := l.wait(ctx, conn); err != nil {
			return err
		}
		switch {
		case l.sweepDue():
			if err := l.requestSweep(ctx, conn, number); err != nil {
				return err
			}
		case time.Since(l.aliveAt) >= l.cfg.PingInterval:
			if err := l.ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// wait takes in notifications until there may be something else to do.
func (l *Listener) wait(ctx context.Context, conn *pgconn.PgConn) error {
	waitCtx, cancel := l.untilDue(ctx)
	defer cancel()
	for {
		err := conn.WaitForNotification(waitCtx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case waitCtx.Err() != nil && !conn.IsClosed():
			return nil
		default:
			return err
		}
	}
}

// untilDue returns a context that ends when a ping or a sweep is due. Whoever makes a sweep due sooner ends it by l.interrupt.
func (l *Listener) untilDue(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.aliveAt.Add(l.cfg.PingInterval)
	if !l.nextSweep.IsZero() {
		due = earlier(due, l.nextSweep)
	}
	ctx, cancel := context.WithDeadline(ctx, due)
	l.interrupt = cancel
	return ctx, cancel
}

// ping proves that somebody is at the other end.
func (l *Listener) ping(ctx context.Context, conn *pgconn.PgConn) error {
	pingCtx, cancel := context.WithTimeout(ctx, l.cfg.PingTimeout)
	defer cancel()
	if err := conn.Ping(pingCtx); err != nil {
		return fmt.Errorf("ping: %w", named(ctx, err, "no answer", l.cfg.PingTimeout))
	}
	l.aliveAt = time.Now()
	return nil
}

func (l *Listener) sweepDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.nextSweep.IsZero() && !time.Now().Before(l.nextSweep)
}

// requestSweep starts a catch-up of what has been missed until now, or of what a dead process never announced.
func (l *Listener) requestSweep(ctx context.Context, conn *pgconn.PgConn, number uint64) error {
	if l.sweeper == nil {
		l.swept(number)
		return nil
	}
	markCtx, cancel := context.WithTimeout(ctx, l.cfg.PingTimeout)
	defer cancel()
	m, err := takeMark(markCtx, conn)
	if err != nil {
		return fmt.Errorf("ask the server for its clock and snapshot: %w", named(ctx, err, "no answer", l.cfg.PingTimeout))
	}
	l.aliveAt = time.Now()
	l.seen.mark()

	l.mu.Lock()
	if l.clock.asked.IsZero() {
		close(l.marked)
	}
	l.clock, l.nextSweep = m, time.Time{}
	counter := &l.catchUps.interval
	switch {
	case !l.caughtUp:
		counter = &l.catchUps.connect
	case l.sweeper.owes():
		counter = &l.catchUps.lost
	}
	l.mu.Unlock()
	l.sweeper.request(sweepRequest{mark: m, complete: func() {
		counter.Add(1)
		l.swept(number)
	}})
	return nil
}

// swept is called when a catch-up is complete that began on the connection of this number.
func (l *Listener) swept(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number == l.number {
		l.caughtUp = true
	}
	if l.sweeper != nil && l.nextSweep.IsZero() {
		l.nextSweep = time.Now().Add(l.cfg.CatchUpInterval)
		l.interrupt() // the waiting does not know of it yet
	}
}

// connected is called when a connection listens. It returns the connection's number.
func (l *Listener) connected(conn *pgconn.PgConn) (number uint64) {
	l.aliveAt = time.Now()
	l.connects.Add(1)
	lasted, failures := time.Since(l.outage.since), l.outage.failures
	if l.outage.healed() {
		logger.Infof(context.Background(), "listening for notifications again after %s and %d failed attempts", lasted.Round(time.Millisecond), failures)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	l.caughtUp = false
	if !l.closed {
		l.up, l.pid = true, conn.PID()
	}
	return l.number
}

// down is called when a connection broke or could not be made.
func (l *Listener) down(err error, pause time.Duration) {
	tell := l.outage.failed(time.Now())
	failures := l.outage.failures
	if tell || l.outage.told && failures <= stepLines {
		logger.Warnf(context.Background(), "not listening for notifications, %d attempts failed, next one in %s: %v%s",
			failures, pause.Round(time.Millisecond), err, andUntold(l.outage.takeUntold()))
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.up, l.pid = false, 0
	l.failures[classify(err)]++
	if !l.closed {
		l.lastErr = err
	}
}
