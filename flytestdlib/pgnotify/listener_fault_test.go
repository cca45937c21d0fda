package pgnotify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

func startProxy(t testing.TB, dsn string, opts pgproxy.Options) *pgproxy.Proxy {
	t.Helper()
	cfg, err := pgconn.ParseConfig(dsn)
	require.NoError(t, err)
	proxy, err := pgproxy.Start(net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)), opts)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return proxy
}

// Between the connection and its LISTEN nobody hears anything. The proxy makes that half a second, with writes in it, announced by
// somebody.
func TestListenerMissesNothingBeforeItsListen(t *testing.T) {
	dsn := testDSN(t)
	proxy := startProxy(t, dsn, pgproxy.Options{})
	th := newThings(t, dsn)
	a := startAnnouncer(t, dsn)
	var listens atomic.Int64
	proxy.HoldBack(func(s pgproxy.Statement) bool {
		hold := strings.HasPrefix(s.SQL, "LISTEN") && strings.Contains(s.SQL, thingChannel)
		if hold {
			listens.Add(1)
		}
		return hold
	}, 500*time.Millisecond)
	awaitListen := func(n int64) {
		awaitThat(t, func() error {
			if listens.Load() < n {
				return errors.New("no LISTEN")
			}
			return nil
		})
	}

	r := startReplica(t, proxy.DSN(dsn), th, nil)
	v := r.startView(t, "run/")
	awaitListen(1)
	a.update(t, th, "run/a", 1)
	v.awaitValue(t, "run/a", 1)

	for i := range 3 {
		r.awaitReady(t)
		require.Equal(t, 1, proxy.CutMatching(listenerRole))
		awaitListen(int64(i + 2))
		a.update(t, th, "run/a", i+2)
		v.awaitValue(t, "run/a", i+2)
	}
}

// Two drops in quick succession, the second while the catch-up after the first is under way: what happens after that catch-up has looked is
// found by another one.
func TestListenerCatchesUpAfterTheLastOfSeveralDrops(t *testing.T) {
	dsn := testDSN(t)
	th := newThings(t, dsn)
	var hold atomic.Pointer[chan struct{}]
	looked := make(chan struct{}, 10)
	r := startReplica(t, dsn, th, func(l *ListenerConfig, _ *BacklogConfig) {
		l.CatchUp = func(ctx context.Context, since time.Time, after string) ([]Change, string, error) {
			page, next, err := th.changed(ctx, since, after)
			if release := hold.Load(); release != nil {
				looked <- struct{}{}
				<-*release
			}
			return page, next, err
		}
	})
	r.awaitReady(t)
	v := r.startView(t, "run/")

	release := make(chan struct{})
	hold.Store(&release)
	require.Equal(t, 1, kill(t, th, listenerRole))
	<-looked
	require.ErrorContains(t, r.listener.Ready(), "catching up")
	require.NoError(t, th.write(t.Context(), "run/a", 1)) // unannounced, and too late for what has been read
	require.Equal(t, 1, kill(t, th, listenerRole))
	awaitThat(t, func() error {
		if r.listener.Stats().Connects < 3 {
			return errors.New("not connected again")
		}
		return nil
	})
	require.Error(t, r.listener.Ready(), "the catch-up under way is of the connection before")
	hold.Store(nil)
	close(release)
	v.awaitValue(t, "run/a", 1)
	r.awaitReady(t)
}

// The other end is there and does not answer: a frozen backend, a network that swallows. With the defaults it takes 10 s.
func TestListenerReplacesAHalfOpenConnection(t *testing.T) {
	server := dbtest.StartServer(t)
	proxy := startProxy(t, server.DSN(), pgproxy.Options{})
	th := newThings(t, server.DSN())
	r := startReplica(t, proxy.DSN(server.DSN()), th, nil)
	r.awaitReady(t)
	v := r.startView(t, "run/")

	faults := map[string]func() (heal func()){
		"frozen backend": func() func() { return server.PauseBackend(int(r.listener.Stats().BackendPID)) },
		"swallowing network": func() func() {
			proxy.Blackhole(true)
			return func() { proxy.Blackhole(false) }
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			r.awaitReady(t)
			before := r.listener.Stats().Connects
			heal := fault()
			defer heal()
			begin := time.Now()
			require.NoError(t, th.write(t.Context(), "run/a", int(before)))
			awaitThat(t, func() error {
				if r.listener.Ready() == nil && r.listener.Stats().Connects == before {
					return errors.New("it still takes the connection for a living one")
				}
				return nil
			})
			assert.Less(t, time.Since(begin), 15*time.Second)
			if name == "swallowing network" {
				require.Error(t, r.listener.Ready())
				require.Error(t, r.listener.Ping())
				heal()
			}
			v.awaitValue(t, "run/a", int(before))
			r.awaitReady(t)
			assert.Greater(t, r.listener.Stats().Connects, before)
		})
	}
}

// While nothing is heard because nobody says anything, the connection stays.
func TestListenerKeepsAQuietConnection(t *testing.T) {
	r, a := world(t, func(l *ListenerConfig, _ *BacklogConfig) { l.PingInterval = 10 * time.Millisecond })
	time.Sleep(300 * time.Millisecond)
	v := r.startView(t, "run/")
	a.update(t, r.things, "run/a", 1)
	v.awaitValue(t, "run/a", 1)
	assert.EqualValues(t, 1, r.listener.Stats().Connects)
}

func TestListenerStartsBeforeItsDatabase(t *testing.T) {
	server := dbtest.StartServer(t)
	th := newThings(t, server.DSN())
	server.Stop(dbtest.Fast)
	log := captureLog(t)
	r := startReplica(t, server.DSN(), th, nil)
	v := r.startView(t, "run/")
	awaitThat(t, func() error {
		if r.listener.Stats().Failures[ReasonConnection] < 5 {
			return errors.New("too few attempts")
		}
		return nil
	})
	require.ErrorContains(t, r.listener.Ready(), "connect")
	lines := strings.Count(log.String(), "not listening for notifications")
	assert.LessOrEqual(t, lines, int(r.listener.Stats().Failures[ReasonConnection]), "one line for each step")
	assert.GreaterOrEqual(t, lines, 4)

	server.Start()
	require.NoError(t, retryWrite(t, th, "run/a", 1)) // unannounced, before or after the listener is there
	v.awaitValue(t, "run/a", 1)
	r.awaitReady(t)
	assert.Contains(t, log.String(), "listening for notifications again")
}

func retryWrite(t testing.TB, th *things, key string, value int) (err error) {
	awaitThat(t, func() error { err = th.write(t.Context(), key, value); return err })
	return err
}

// A standby can be connected to and cannot be listened on. After the failover the same address leads to a server that can.
func TestListenerFollowsAFailover(t *testing.T) {
	primary := dbtest.StartServer(t)
	standby := primary.Standby(t)
	th := newThings(t, primary.DSN())
	proxy := startProxy(t, primary.DSN(), pgproxy.Options{})
	throughProxy := newThings(t, proxy.DSN(primary.DSN()))
	r := startReplica(t, proxy.DSN(primary.DSN()), throughProxy, nil)
	r.awaitReady(t)
	v := r.startView(t, "run/")
	require.NoError(t, th.write(t.Context(), "run/a", 1))
	kill(t, th, listenerRole)
	v.awaitValue(t, "run/a", 1)

	primary.Stop(dbtest.Fast)
	proxy.SetUpstream(net.JoinHostPort("127.0.0.1", fmt.Sprint(standby.Port())))
	awaitThat(t, func() error {
		if r.listener.Stats().Failures[ReasonReadOnly] == 0 {
			return errors.New("it has not found the standby")
		}
		return nil
	})
	require.ErrorContains(t, r.listener.Ready(), "recovery")
	standby.Promote()
	require.NoError(t, retryWrite(t, throughProxy, "run/a", 2))
	v.awaitValue(t, "run/a", 2)
	r.awaitReady(t)
}

// A crash and a restart, with a change while nobody listens whose transaction number may have been another's before.
func TestListenerMistrustsSnapshotsFromBeforeACrash(t *testing.T) {
	server := dbtest.StartServer(t)
	th := newThings(t, server.DSN())
	// The write may come after the first catch-up of the new connection; then the next one has to find it.
	r := startReplica(t, server.DSN(), th, func(c *ListenerConfig, _ *BacklogConfig) { c.CatchUpInterval = patience / 600 })
	r.awaitReady(t)
	v := r.startView(t, "run/")
	incarnation := func() string {
		r.listener.mu.Lock()
		defer r.listener.mu.Unlock()
		return r.listener.clock.incarnation
	}
	crashes := map[string]func(){
		"restarted server": func() { server.Restart(dbtest.Immediate) },
		"one backend is killed, and the postmaster starts all of them anew": func() {
			victim := connectTo(t, server.DSN())
			require.NoError(t, syscall.Kill(int(victim.PgConn().PID()), syscall.SIGKILL))
		},
	}
	value := 0
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			r.awaitReady(t)
			before := incarnation()
			require.NotEmpty(t, before)
			crash()
			value++
			require.NoError(t, retryWrite(t, th, "run/a", value))
			v.awaitValue(t, "run/a", value)
			awaitThat(t, func() error {
				if incarnation() == before {
					return errors.New("it looks like the same")
				}
				return nil
			})
		})
	}
	t.Run("a connection that is killed is no crash", func(t *testing.T) {
		r.awaitReady(t)
		before, connects := incarnation(), r.listener.Stats().Connects
		kill(t, th, listenerRole)
		awaitThat(t, func() error {
			if r.listener.Stats().Connects == connects {
				return errors.New("not connected again")
			}
			return r.listener.Ready()
		})
		assert.Equal(t, before, incarnation())
	})
}

// The broadcaster is stuck, the subscribers' lock held, and 100 MB arrive. A listener that stopped reading would make the server keep
// them, and after them everybody's.
func TestListenerKeepsReadingWhileTheBroadcasterIsStuck(t *testing.T) {
	const size, count = 7900, 13_300 // 105 MB, all different
	r, a := world(t, func(_ *ListenerConfig, b *BacklogConfig) { b.MaxBytes = 16 << 20 })
	v := r.startView(t, "run/")
	a.update(t, r.things, "run/a", 1)
	v.awaitValue(t, "run/a", 1)
	base := heap()

	r.mu.Lock()
	locked := true
	defer func() {
		if locked {
			r.mu.Unlock()
		}
	}()
	a.update(t, r.things, "run/a", 2) // will be dropped
	flood := connectTo(t, testDSNOf(r))
	for i := 0; i < count; i += 100 {
		_, err := flood.Exec(t.Context(), "SELECT pg_notify($1, lpad(i::text, $2, 'x')) FROM generate_series($3::int, $3 + 99) AS i", thingChannel, size, i)
		require.NoError(t, err)
	}
	awaitThat(t, func() error {
		if got := r.listener.Stats().Notifications; got < count {
			return fmt.Errorf("%d of %d are read", got, count)
		}
		return nil
	})
	awaitThat(t, func() error { // the backend holds a snapshot for an instant whenever it reads the queue
		var xmin *string
		var usage float64
		err := flood.QueryRow(t.Context(), "SELECT backend_xmin::text, pg_notification_queue_usage() FROM pg_stat_activity WHERE pid = $1",
			r.listener.Stats().BackendPID).Scan(&xmin, &usage)
		if err == nil && (xmin != nil || usage >= 0.001) {
			err = fmt.Errorf("%v of the queue is kept for it, and a snapshot: %t", usage, xmin != nil)
		}
		return err
	})
	stats := r.listener.Stats().Backlog
	assert.LessOrEqual(t, stats.Bytes, 16<<20)
	assert.Positive(t, stats.Lost)
	assert.Less(t, heap()-base, int64(48<<20))
	require.NoError(t, r.listener.Ping())

	locked = false
	r.mu.Unlock()
	v.awaitValue(t, "run/a", 2)
	a.update(t, r.things, "run/a", 3)
	v.awaitValue(t, "run/a", 3)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The listener's and the sender's backends are killed again and again while many things change; all is there soon after it ends.
func TestListenerUnderFire(t *testing.T) {
	const keys, writers = 200, 8
	r, a := world(t, nil)
	v := r.startView(t, "run/")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var all sync.WaitGroup
	var last [keys]atomic.Int64
	for w := range writers {
		all.Go(func() {
			for i := 1; ctx.Err() == nil; i++ {
				for key := w; key < keys; key += writers {
					name := fmt.Sprint("run/", key)
					if err := r.things.write(context.Background(), name, i); err == nil {
						last[key].Store(int64(i))
						a.pump.Add(thingChannel, name)
					}
				}
			}
		})
	}
	kills := 0
	for ctx.Err() == nil {
		kills += kill(t, r.things, listenerRole) + kill(t, r.things, senderRole)
		time.Sleep(200 * time.Millisecond)
	}
	all.Wait()
	end := time.Now()
	for key := range keys {
		v.awaitValue(t, fmt.Sprint("run/", key), int(last[key].Load()))
	}
	t.Logf("%d backends killed, %d connections, settled after %s, %+v", kills, r.listener.Stats().Connects, time.Since(end), r.listener.Stats())
	assert.Greater(t, kills, 10)
	assert.Zero(t, v.errs)
	r.awaitReady(t)
	a.update(t, r.things, "run/0", 1<<20)
	v.awaitValue(t, "run/0", 1<<20)
}

func TestListenerCloseWithANetworkThatSwallows(t *testing.T) {
	for name, state := range map[string]func(t *testing.T, l *Listener, proxy *pgproxy.Proxy){
		"connecting": func(t *testing.T, l *Listener, proxy *pgproxy.Proxy) {
			proxy.CutAll()
			awaitThat(t, func() error {
				if l.Ping() == nil {
					return errors.New("still connected")
				}
				return nil
			})
		},
		"ping in flight": func(*testing.T, *Listener, *pgproxy.Proxy) { time.Sleep(100 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			dsn := testDSN(t)
			proxy := startProxy(t, dsn, pgproxy.Options{})
			backlog, err := NewBacklog(BacklogConfig{}, newBroadcaster().subscribers())
			require.NoError(t, err)
			l, err := NewListener(ListenerConfig{DSN: proxy.DSN(dsn), PingInterval: 20 * time.Millisecond}, backlog)
			require.NoError(t, err)
			awaitThat(t, l.Ready)
			proxy.Blackhole(true)
			state(t, l, proxy)
			begin := time.Now()
			require.NoError(t, l.Close(t.Context()))
			assert.Less(t, time.Since(begin), 4*time.Second, "less than a timeout of its own")
		})
	}
}

// logBuffer takes lines of several goroutines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// captureLog collects the log until the end of the test.
func captureLog(t testing.TB) *logBuffer {
	t.Helper()
	var out logBuffer
	require.NoError(t, logger.Setup(logger.DefaultConfig(), &out))
	t.Cleanup(func() { require.NoError(t, logger.Setup(logger.DefaultConfig(), os.Stderr)) })
	return &out
}
