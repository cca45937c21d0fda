package pgnotify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ListenerConfig configures a Listener. Only DSN is required.
type ListenerConfig struct {
	// DSN names the server, as a URL or in key=value form. It must lead to the server itself or to a pooler in session mode. The
	// session calls itself what application_name in DSN says, followed by "notify-listener".
	DSN string
	// SenderDSN is where what is to be heard is announced, if that is not DSN itself. The self-test sends from there, and so finds out
	// that the two lead to different servers or databases, between which no notification passes.
	SenderDSN string

	// CatchUp finds what was not heard of. Without it, what is announced while the connection is down is missed.
	CatchUp CatchUp
	// CatchUpInterval is the time from the end of one catch-up to the next while nothing is wrong: how long a change
	// may go unnoticed whose announcement its process took to its grave. Default 30 s.
	CatchUpInterval time.Duration
	// CatchUpOverlap is how far a catch-up reaches back behind the last one: it must be longer than a change can take from its stamp to its
	// commit, except in transactions that show in pg_stat_activity as having written, and longer than the clocks of a server
	// and its successor differ. Default 10 s. What the watchers have is not announced again, so all it costs is to
	// read the rows.
	//
	// The exception does not hold for a single subscriber for which payloads had to be dropped at the limits of the Backlog: it is told what
	// changed since the first of them arrived, less the overlap and nothing else. If a transaction was longer than that, and
	// its announcement among what was dropped, then that subscriber hears of it with the row's next change.
	CatchUpOverlap time.Duration
	// CatchUpTimeout bounds the reading of one page. Default 30 s.
	CatchUpTimeout time.Duration

	// DialTimeout bounds the making of a connection: name look-up, dial, TLS, authentication. Default 5 s.
	DialTimeout time.Duration
	// PingInterval is the silence after which the server is asked whether it is there. Default 5 s.
	PingInterval time.Duration
	// PingTimeout bounds its answer, to this and to every other statement. A dead connection is thus replaced PingInterval
	// and PingTimeout after the last sign of life. Default 5 s.
	PingTimeout time.Duration
}

// Defaults of ListenerConfig. DefaultDialTimeout is that of SenderConfig.
const (
	DefaultCatchUpInterval = 30 * time.Second
	DefaultCatchUpOverlap  = 10 * time.Second
	DefaultCatchUpTimeout  = 30 * time.Second
	DefaultPingInterval    = 5 * time.Second
	DefaultPingTimeout     = 5 * time.Second
)

// WithDefaults returns a copy in which zero fields have their defaults.
func (c ListenerConfig) WithDefaults() ListenerConfig {
	c.SenderDSN = cmp.Or(c.SenderDSN, c.DSN)
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.CatchUpInterval, DefaultCatchUpInterval},
		{&c.CatchUpOverlap, DefaultCatchUpOverlap},
		{&c.CatchUpTimeout, DefaultCatchUpTimeout},
		{&c.DialTimeout, DefaultDialTimeout},
		{&c.PingInterval, DefaultPingInterval},
		{&c.PingTimeout, DefaultPingTimeout},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return c
}

func (c ListenerConfig) validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"CatchUpInterval", c.CatchUpInterval},
		{"CatchUpOverlap", c.CatchUpOverlap},
		{"CatchUpTimeout", c.CatchUpTimeout},
		{"DialTimeout", c.DialTimeout},
		{"PingInterval", c.PingInterval},
		{"PingTimeout", c.PingTimeout},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s is %s, it must be positive", d.name, d.value)
		}
	}
	return nil
}

// ErrListenerClosed is what Ping and Ready return after Close.
var ErrListenerClosed = errors.New("the notification listener is closed")

// seenLimit is how many payloads a Listener remembers as heard of between two catch-ups; those beyond are announced once
// more by the next one.
const seenLimit = 1 << 18

// Listener hears what is announced on the channels of a Backlog, on one connection of its own, and makes sure that nothing
// is missed while that connection is not there. It runs from NewListener to Close.
//
//	   ┌────────── pause: 50 ms, doubling to 5 s, with jitter ◄───────────────┐ any failure
//	   ▼                                                                      │
//	connect ─► LISTEN each channel ─► self-test ─► wait, at most PingInterval ─► ping
//	                               (the first time) ▲                           │
//	                                                └───────────────────────────┘
//	                               └► catch-up, beside the waiting ─► ready
//
// It is a failure, too, when DSN leads to another server by now, which is looked for each half a minute on a connection made for it: a server
// that has been failed over from may go on as if nothing had happened.
//
// The pause starts over at 50 ms when a connection has listened for that long. The goroutine that reads the connection waits for
// nothing else, ever: the server keeps a notification until the slowest listener of the cluster has read it.
type Listener struct {
	// Notify is the Backlog's. It is never closed, and no nil is sent on it.
	Notify <-chan *Notification

	cfg     ListenerConfig
	session *pgconn.Config
	sending *pgconn.Config // for the self-test
	backlog *Backlog
	seen    *sightings
	sweeper *sweeper // nil without CatchUp
	again   again

	follower *follower // belongs to the goroutine that reads the connection

	cancel context.CancelFunc
	ended  map[string]chan struct{} // what runs → closed when it has ended

	// Belongs to the goroutine that reads the connection.
	tested    bool                 // the self-test has been passed
	awaited   string               // the nonce of the self-test under way
	heard     bool                 // it came
	server    string               // what the connection leads to
	aliveAt   time.Time            // the last sign of life
	snapshots map[uint32]*snapshot // by sending backend: what its statement ran under
	outage    outage

	marked chan struct{} // closed when there is a clock

	mu        sync.Mutex
	closed    bool
	number    uint64 // of the connection made last
	up        bool   // it lives
	pid       uint32 // its backend
	caughtUp  bool   // a catch-up that began after its LISTEN is complete
	lastErr   error  // why it does not, or why there is none yet
	clock     mark   // the last one: maps our clock to the server's
	nextSweep time.Time
	interrupt context.CancelFunc // ends the waiting under way, if there is one; never nil
	failures  map[Reason]uint64

	connects, notifications atomic.Uint64
	catchUps                struct{ connect, interval, lost atomic.Uint64 }
	lag                     atomic.Int64                        // nanoseconds
	onLag                   atomic.Pointer[func(time.Duration)] // is told of each, in the goroutine that reads the connection
}

// ListenerStats is a snapshot of what a Listener has done.
type ListenerStats struct {
	Connects      uint64            // connections that got as far as listening
	Failures      map[Reason]uint64 // connections that were lost or could not be made
	Notifications uint64            // received
	// Lag is how long the notifications heard last were under way from the Sender's statement, by the server's clock; 0 before there
	// were any, and without CatchUp. Its error is within half a round trip.
	Lag time.Duration

	CatchUps         uint64 // completed, of these:
	CatchUpsConnect  uint64 // because there was a new connection
	CatchUpsInterval uint64 // because it was time
	CatchUpsLost     uint64 // because notifications had to be dropped

	CatchUpErrors uint64 // attempts that failed
	CatchUpRows   uint64 // changes that catch-ups found
	CatchUpMissed uint64 // of these, not known to have been heard of, and so announced
	BackendPID    uint32 // of the connection, 0 when there is none
	Ready         bool
	Backlog       BacklogStats
}

// NewListener returns a Listener that has begun to listen on the channels of backlog, which is the Listener's from now on. It does no
// I/O itself: Ready tells how it goes. The caller owes Close.
func NewListener(cfg ListenerConfig, backlog *Backlog) (*Listener, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("pgnotify listener: %w", err)
	}
	session, err := sessionConfig(cfg.DSN, listenerRole, cfg.DialTimeout)
	if err != nil {
		return nil, fmt.Errorf("pgnotify listener: %w", err)
	}
	sending, err := sessionConfig(cfg.SenderDSN, listenerRole, cfg.DialTimeout)
	if err != nil {
		return nil, fmt.Errorf("pgnotify listener: %w", err)
	}
	follower, err := newFollower(cfg.DSN, cfg.DialTimeout)
	if err != nil {
		return nil, fmt.Errorf("pgnotify listener: %w", err)
	}
	l := &Listener{
		Notify:   backlog.Notify,
		cfg:      cfg,
		session:  &session.Config,
		sending:  &sending.Config,
		follower: follower,
		backlog:  backlog,
		seen:     newSightings(seenLimit),
		ended:    map[string]chan struct{}{},
		lastErr:  errors.New("not connected yet"),
		failures: map[Reason]uint64{},
		marked:   make(chan struct{}),

		interrupt: func() {},
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel

	if cfg.CatchUp != nil {
		l.sweeper = &sweeper{
			read: cfg.CatchUp, overlap: cfg.CatchUpOverlap, timeout: cfg.CatchUpTimeout,
			seen: l.seen, arrive: backlog.arrive, crowded: backlog.crowded, retelling: backlog.retelling,
			started: time.Now(), requests: make(chan sweepRequest, 1), backoff: newBackoff(),
		}
		backlog.onLost = l.lost
		backlog.refeeds.read = l.changesSince
		l.start(ctx, "catch-up", l.sweeper.run)
		l.start(ctx, "catch-up of slow subscribers", func(ctx context.Context) { backlog.refeeds.run(ctx, backlog.started) })
	}
	l.start(ctx, "distributor", backlog.run)
	l.start(ctx, "connection", l.run)
	return l, nil
}

func (l *Listener) start(ctx context.Context, name string, run func(context.Context)) {
	ended := make(chan struct{})
	l.ended[name] = ended
	go func() {
		defer close(ended)
		run(ctx)
	}()
}

// Close ends the listening and everything else that the Listener does. It returns when that has ended, or when ctx ends (without a
// deadline: after 10 s) with an error that says what has not: something that the caller gave to the Listener, Subscribers or
// CatchUp, has not returned. Notify stays open, with nothing to come; Ping and Ready fail from now on. A second Close waits again.
func (l *Listener) Close(ctx context.Context) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeTimeout)
		defer cancel()
	}
	l.mu.Lock()
	l.closed, l.up, l.pid, l.lastErr = true, false, 0, ErrListenerClosed
	l.mu.Unlock()
	l.cancel()
	l.again.close()

	var left []string
	for name, ended := range l.ended {
		select {
		case <-ended:
			continue
		default:
		}
		select {
		case <-ended:
		case <-ctx.Done():
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("close the notification listener: still running: %s: %w", strings.Join(left, ", "), ctx.Err())
	}
	return nil
}

// Ping tells whether the connection lives, from what its own pings have found: it returns at once, and what it says is at most
// PingInterval and PingTimeout old.
func (l *Listener) Ping() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return fmt.Errorf("notification listener: %w", l.lastErr)
	}
	return nil
}

// Ready tells whether every change reaches the subscribers now: the connection lives, and what was missed before it did has been
// found.
func (l *Listener) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.up:
		return fmt.Errorf("notification listener: %w", l.lastErr)
	case !l.caughtUp:
		return errors.New("notification listener: catching up")
	}
	return nil
}

// Stats returns what the Listener has done so far.
func (l *Listener) Stats() ListenerStats {
	s := ListenerStats{
		Connects: l.connects.Load(), Notifications: l.notifications.Load(), Lag: time.Duration(l.lag.Load()),
		Backlog: l.backlog.Stats(), Ready: l.Ready() == nil,
	}
	l.mu.Lock()
	s.BackendPID, s.Failures = l.pid, maps.Clone(l.failures)
	l.mu.Unlock()
	if w := l.sweeper; w != nil {
		s.CatchUpsConnect, s.CatchUpsInterval, s.CatchUpsLost = l.catchUps.connect.Load(), l.catchUps.interval.Load(), l.catchUps.lost.Load()
		s.CatchUps, s.CatchUpErrors = s.CatchUpsConnect+s.CatchUpsInterval+s.CatchUpsLost, w.failures.Load()
		s.CatchUpRows, s.CatchUpMissed = w.rows.Load(), w.delivered.Load()
	}
	return s
}

// lost is called when notifications had to be dropped before anybody got them.
func (l *Listener) lost(since time.Time) {
	l.sweeper.lost(since)
	l.sweepNow()
}

// sweepNow makes the reading goroutine ask for a sweep.
func (l *Listener) sweepNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextSweep = time.Now()
	l.interrupt()
}

// changesSince reads a page of what changed since a payload that arrived then was sent. What arrives before the first mark has to wait
// for it: nothing else tells when that was by the server's clock.
func (l *Listener) changesSince(ctx context.Context, arrived time.Time, after string) ([]Change, string, error) {
	select {
	case <-l.marked:
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	l.mu.Lock()
	clock := l.clock
	l.mu.Unlock()
	return l.sweeper.page(ctx, clock.at.Add(arrived.Sub(clock.taken)-l.cfg.CatchUpOverlap), after)
}
