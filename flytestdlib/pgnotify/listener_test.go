package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// connectTo is a session of the test's own.
func connectTo(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// kill terminates the sessions of the database whose application_name ends in role.
func kill(t testing.TB, th *things, role string) (killed int) {
	t.Helper()
	require.NoError(t, th.pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE '%' || $1`, role).Scan(&killed))
	return killed
}

// world is one database with a table, a replica that listens, and a sender.
func world(t testing.TB, change func(*ListenerConfig, *BacklogConfig)) (*replica, *announcer) {
	t.Helper()
	dsn := testDSN(t)
	r := startReplica(t, dsn, newThings(t, dsn), change)
	r.awaitReady(t)
	return r, startAnnouncer(t, dsn)
}

func TestListenerDeliversWhatIsAnnounced(t *testing.T) {
	r, a := world(t, nil)
	v, other := r.startView(t, "run/"), r.startView(t, "elsewhere/")
	for i := 1; i <= 3; i++ {
		a.update(t, r.things, "run/a", i)
		v.awaitValue(t, "run/a", i)
	}
	assert.Zero(t, other.reads)
	stats := r.listener.Stats()
	assert.EqualValues(t, 1, stats.Connects)
	assert.EqualValues(t, 3, stats.Notifications)
	assert.EqualValues(t, 1, stats.CatchUps)
	assert.Zero(t, stats.CatchUpMissed)
	require.NoError(t, r.listener.Ping())
}

// Many times what a subscriber's channel holds, in bursts, to a watcher that takes its time.
func TestListenerDeliversBurstsWhole(t *testing.T) {
	const n = 2000
	r, a := world(t, nil)
	v := r.startView(t, "run/")
	_, err := r.things.pool.Exec(t.Context(), "INSERT INTO things SELECT 'run/' || i, 7 FROM generate_series(0, $1 - 1) AS i", n)
	require.NoError(t, err)
	for i := range n {
		a.pump.Add(thingChannel, fmt.Sprint("run/", i))
	}
	for i := range n {
		v.awaitValue(t, fmt.Sprint("run/", i), 7)
	}
	assert.Positive(t, r.dropped.Load(), "the broadcaster had to drop some")
}

func TestListenerQuotesChannelNames(t *testing.T) {
	dsn := testDSN(t)
	const channel = `Mixed "case"; SELECT 'x' -- é`
	heard := make(chan string, 10)
	backlog, err := NewBacklog(BacklogConfig{}, map[string]Subscribers{channel: func(visit func(chan string)) { visit(heard) }})
	require.NoError(t, err)
	l, err := NewListener(ListenerConfig{DSN: dsn}, backlog)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(t.Context())) }()
	awaitThat(t, l.Ready)
	_, err = connectTo(t, dsn).Exec(t.Context(), "SELECT pg_notify($1, 'payload')", channel)
	require.NoError(t, err)
	n := <-l.Notify
	assert.Equal(t, &Notification{Channel: channel, Extra: "payload"}, n)
}

func TestListenerIsFoundByItsName(t *testing.T) {
	dsn := testDSN(t)
	r := startReplica(t, dsn+" application_name=runs", newThings(t, dsn), nil)
	r.awaitReady(t)
	awaitThat(t, func() error { // it may be at something for an instant
		var pid uint32
		err := r.things.pool.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE application_name = 'runs notify-listener' AND state = 'idle' AND backend_xmin IS NULL`).Scan(&pid)
		if err == nil && pid != r.listener.Stats().BackendPID {
			err = fmt.Errorf("it is %d that is found", pid)
		}
		return err
	})
}

// A change that is committed and never announced, while the connection is down; then silence.
func TestListenerFindsWhatWasMissedWhileItWasAway(t *testing.T) {
	r, a := world(t, nil)
	v := r.startView(t, "run/")
	a.update(t, r.things, "run/a", 1)
	v.awaitValue(t, "run/a", 1)

	for i := 2; i < 5; i++ {
		require.NoError(t, r.things.write(t.Context(), "run/a", i)) // by a process that has died
		require.Equal(t, 1, kill(t, r.things, "notify-listener"))
		v.awaitValue(t, "run/a", i)
	}
	assert.EqualValues(t, 4, r.listener.Stats().Connects)

	a.update(t, r.things, "run/a", 9)
	v.awaitValue(t, "run/a", 9)
}

// The same, found by the interval alone.
func TestListenerFindsWhatADeadProcessNeverAnnounced(t *testing.T) {
	r, a := world(t, func(l *ListenerConfig, _ *BacklogConfig) { l.CatchUpInterval = 50 * time.Millisecond })
	v := r.startView(t, "run/")
	for i := range 5 {
		require.NoError(t, r.things.write(t.Context(), "run/a", i))
		v.awaitValue(t, "run/a", i)
	}
	a.update(t, r.things, "run/b", 1)
	v.awaitValue(t, "run/b", 1)
	assert.EqualValues(t, 1, r.listener.Stats().Connects)
}

// awaitCatchUp waits for a catch-up that has begun after now.
func (r *replica) awaitCatchUp(t testing.TB) {
	t.Helper()
	before := r.listener.Stats().CatchUps
	awaitThat(t, func() error {
		if now := r.listener.Stats().CatchUps; now < before+2 {
			return fmt.Errorf("%d catch-ups", now-before)
		}
		return nil
	})
}

func TestListenerDoesNotAnnounceAgainWhatWasHeard(t *testing.T) {
	r, a := world(t, func(l *ListenerConfig, _ *BacklogConfig) { l.CatchUpInterval = 50 * time.Millisecond })
	v := r.startView(t, "run/")
	for i := range 300 {
		a.update(t, r.things, fmt.Sprint("run/", i%30), i)
	}
	for i := range 30 {
		v.awaitValue(t, fmt.Sprint("run/", i), 270+i)
	}
	r.awaitCatchUp(t)
	r.awaitCatchUp(t)
	stats := r.listener.Stats()
	assert.Positive(t, stats.CatchUpRows)
	// A catch-up that looks between a commit and its notification cannot know that the notification will come.
	assert.LessOrEqual(t, stats.CatchUpMissed, stats.CatchUpRows/4)
	missed := stats.CatchUpMissed
	r.awaitCatchUp(t)
	assert.Equal(t, missed, r.listener.Stats().CatchUpMissed, "when nothing happens, nothing is announced")
}

// The notification of an earlier change arrives while the later one is stamped and not yet committed; then the later one's process dies.
// By time alone the row would look as if it had been heard of.
func TestListenerIsNotFooledByTheNotificationOfAnEarlierChange(t *testing.T) {
	r, a := world(t, func(l *ListenerConfig, _ *BacklogConfig) { l.CatchUpInterval = 50 * time.Millisecond })
	v := r.startView(t, "run/")
	require.NoError(t, r.things.write(t.Context(), "run/a", 1))

	dying, err := connectTo(t, testDSNOf(r)).Begin(t.Context())
	require.NoError(t, err)
	_, err = dying.Exec(t.Context(), "UPDATE things SET value = 2, updated_at = clock_timestamp() WHERE key = 'run/a'")
	require.NoError(t, err)
	before := r.listener.Stats().Notifications
	a.pump.Add(thingChannel, "run/a") // change 1
	awaitThat(t, func() error {
		if r.listener.Stats().Notifications == before {
			return errors.New("not heard")
		}
		return nil
	})
	require.NoError(t, dying.Commit(t.Context()))
	v.awaitValue(t, "run/a", 2)
}

// testDSNOf is a connection string of the replica's database.
func testDSNOf(r *replica) string { return r.listener.cfg.DSN }

// A transaction that is open over several catch-ups, its stamp from before them, shows itself by its number; and afterwards nothing reaches
// back that far any more.
func TestListenerFindsALateCommit(t *testing.T) {
	r, _ := world(t, func(l *ListenerConfig, _ *BacklogConfig) {
		l.CatchUpInterval, l.CatchUpOverlap = 50*time.Millisecond, time.Millisecond
	})
	v := r.startView(t, "run/")
	require.NoError(t, r.things.write(t.Context(), "run/a", 1))
	v.awaitValue(t, "run/a", 1)

	late, err := connectTo(t, testDSNOf(r)).Begin(t.Context())
	require.NoError(t, err)
	_, err = late.Exec(t.Context(), "UPDATE things SET value = 2, updated_at = now() WHERE key = 'run/a'")
	require.NoError(t, err)
	for range 3 {
		r.awaitCatchUp(t)
	}
	require.NoError(t, late.Commit(t.Context()))
	v.awaitValue(t, "run/a", 2)
}

func TestListenerIsReadyOnlyWhenItHasCaughtUp(t *testing.T) {
	dsn := testDSN(t)
	th := newThings(t, dsn)
	no := errors.New("the pool is exhausted")
	th.fail.Store(&no)
	r := startReplica(t, dsn, th, nil)
	awaitThat(t, r.listener.Ping)
	awaitThat(t, func() error {
		if r.listener.Stats().CatchUpErrors < 3 {
			return errors.New("it does not try again")
		}
		return nil
	})
	require.ErrorContains(t, r.listener.Ready(), "catching up")

	// What is announced is heard all the same.
	v := r.startView(t, "run/")
	a := startAnnouncer(t, dsn)
	a.update(t, th, "run/a", 1)
	v.awaitValue(t, "run/a", 1)

	th.fail.Store(nil)
	r.awaitReady(t)
	assert.EqualValues(t, 1, r.listener.Stats().Connects, "a failed catch-up is no reason to reconnect")
}

// A watch that registers only after its caller has read the state, with an update in between.
func TestListenerTellsALateWatcherWhatItJustMissed(t *testing.T) {
	r, a := world(t, nil)
	register := make(chan struct{})
	v := r.startViewSometime(t, "run/", register)
	early := r.startView(t, "run/")
	a.update(t, r.things, "run/a", 1)
	early.awaitValue(t, "run/a", 1)
	time.Sleep(500 * time.Millisecond) // not to learn that something is ready: this is the delay that is tested
	close(register)
	v.awaitValue(t, "run/a", 1)
}

// The broadcaster gives up when a ping fails, and is there again when there is something to offer.
func TestListenerSurvivesABroadcasterThatGivesUp(t *testing.T) {
	dsn := testDSN(t)
	th := newThings(t, dsn)
	r := newReplica(t, dsn, th, nil)
	r.quiet = 5 * time.Millisecond
	r.start(t)
	r.awaitReady(t)
	v := r.startView(t, "run/")
	a := startAnnouncer(t, dsn)
	for i := 1; i <= 3; i++ {
		restarts := r.restarts.Load()
		awaitThat(t, func() error {
			kill(t, th, "notify-listener")
			if r.restarts.Load() == restarts {
				return errors.New("the broadcaster has not given up")
			}
			return nil
		})
		a.update(t, th, "run/a", i)
		v.awaitValue(t, "run/a", i)
	}
}

func TestListenerSaysWhatIsWrongWithItsConfiguration(t *testing.T) {
	backlog := func() *Backlog {
		b, err := NewBacklog(BacklogConfig{}, newBroadcaster().subscribers())
		require.NoError(t, err)
		return b
	}
	for want, cfg := range map[string]ListenerConfig{
		"PingInterval is -1s":        {PingInterval: -time.Second},
		"CatchUpTimeout is -1s":      {CatchUpTimeout: -time.Second},
		"notify-listener connection": {DSN: "port=x"},
	} {
		_, err := NewListener(cfg, backlog())
		require.ErrorContains(t, err, want)
	}
}

func TestListenerCloseIsPromptAndFinal(t *testing.T) {
	dsn := testDSN(t)
	nobody := func(func(chan string)) {}
	start := func(dsn string, each Subscribers) *Listener {
		backlog, err := NewBacklog(BacklogConfig{}, map[string]Subscribers{thingChannel: each})
		require.NoError(t, err)
		l, err := NewListener(ListenerConfig{DSN: dsn}, backlog)
		require.NoError(t, err)
		return l
	}
	closeIt := func(t *testing.T, l *Listener) {
		t.Helper()
		begin := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { assert.NoError(t, l.Close(t.Context())) })
		}
		all.Wait()
		assert.Less(t, time.Since(begin), 10*time.Second)
		require.ErrorIs(t, l.Ping(), ErrListenerClosed)
		require.ErrorIs(t, l.Ready(), ErrListenerClosed)
		select {
		case n := <-l.Notify:
			t.Fatalf("%v after Close", n)
		default: // open, so that a loop that skips nil does not spin
		}
	}
	t.Run("at once", func(t *testing.T) { closeIt(t, start(dsn, nobody)) })
	t.Run("listening", func(t *testing.T) {
		l := start(dsn, nobody)
		awaitThat(t, l.Ready)
		closeIt(t, l)
	})
	t.Run("backing off", func(t *testing.T) {
		l := start("host=127.0.0.1 port=1 sslmode=disable", nobody)
		awaitThat(t, func() error {
			if l.Stats().Failures[ReasonConnection] < 4 {
				return errors.New("too few failures")
			}
			return nil
		})
		require.ErrorContains(t, l.Ready(), "connect")
		closeIt(t, l)
	})
	t.Run("10,000 unread", func(t *testing.T) {
		l := start(dsn, nobody)
		awaitThat(t, l.Ready)
		_, err := connectTo(t, dsn).Exec(t.Context(), "SELECT pg_notify($1, i::text) FROM generate_series(1, 10000) AS i", thingChannel)
		require.NoError(t, err)
		awaitThat(t, func() error {
			if l.Stats().Notifications < 10_000 {
				return errors.New("not read")
			}
			return nil
		})
		closeIt(t, l)
	})
	t.Run("while the subscribers' lock is held", func(t *testing.T) {
		release := make(chan struct{})
		in := make(chan struct{})
		enter := sync.OnceFunc(func() { close(in) })
		l := start(dsn, func(func(chan string)) {
			enter()
			<-release
		})
		<-in
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := l.Close(ctx)
		require.ErrorContains(t, err, "still running: distributor")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(release)
		closeIt(t, l)
	})
}

// With no CatchUp there is still a listener, that knows nothing of what it missed.
func TestListenerWithoutCatchUp(t *testing.T) {
	dsn := testDSN(t)
	backlog, err := NewBacklog(BacklogConfig{}, map[string]Subscribers{thingChannel: func(func(chan string)) {}})
	require.NoError(t, err)
	l, err := NewListener(ListenerConfig{DSN: dsn}, backlog)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(t.Context())) }()
	awaitThat(t, l.Ready)
	conn := connectTo(t, dsn)
	_, err = conn.Exec(t.Context(), "SELECT pg_notify($1, 'x')", thingChannel)
	require.NoError(t, err)
	assert.Equal(t, "x", (<-l.Notify).Extra)
	assert.Zero(t, l.Stats().CatchUps)
	assert.True(t, strings.HasSuffix(l.session.RuntimeParams["application_name"], "notify-listener"))
}
