package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// What the tests here put around a Listener: a table, a service that writes to it and announces, and watchers that know as
// little of this package as those it is made for.

const (
	thingChannel = "thing_updates"
	groupChannel = "group_updates"

	patience = 60 * time.Second // for what must happen at all, on a machine that is busy
)

// broadcaster offers notifications to subscribers. It drops what does not fit, and skips nil.
type broadcaster struct {
	mu     sync.RWMutex
	groups map[chan string]bool
	things map[chan string]bool

	listener *Listener
	quiet    time.Duration
	done     chan struct{}

	dropped  atomic.Int64
	restarts atomic.Int64
}

func newBroadcaster() *broadcaster {
	return &broadcaster{groups: map[chan string]bool{}, things: map[chan string]bool{}, quiet: 90 * time.Second, done: make(chan struct{})}
}

func (b *broadcaster) subscribers() map[string]Subscribers {
	each := func(set map[chan string]bool) Subscribers {
		return func(visit func(chan string)) {
			b.mu.RLock()
			defer b.mu.RUnlock()
			for ch := range set {
				visit(ch)
			}
		}
	}
	return map[string]Subscribers{groupChannel: each(b.groups), thingChannel: each(b.things)}
}

func (b *broadcaster) processNotifications() {
	for {
		select {
		case notif := <-b.listener.Notify:
			if notif == nil {
				continue
			}
			switch notif.Channel {
			case groupChannel:
				b.offer(b.groups, notif.Extra)
			case thingChannel:
				b.offer(b.things, notif.Extra)
			}
		case <-time.After(b.quiet):
			if err := b.listener.Ping(); err != nil {
				return
			}
		case <-b.done:
			return
		}
	}
}

func (b *broadcaster) offer(set map[chan string]bool, payload string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for ch := range set {
		select {
		case ch <- payload:
		default:
			b.dropped.Add(1)
		}
	}
}

// supervise starts processNotifications again whenever it returns.
func (b *broadcaster) supervise() {
	for {
		b.processNotifications()
		select {
		case <-b.done:
			return
		default:
			b.restarts.Add(1)
		}
	}
}

func (b *broadcaster) subscribe(set map[chan string]bool) (chan string, func()) {
	ch := make(chan string, 100)
	b.mu.Lock()
	defer b.mu.Unlock()
	set[ch] = true
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(set, ch)
		close(ch)
	}
}

// watch tells of every thing under prefix that may have changed, each once for all that is queued.
func (b *broadcaster) watch(ctx context.Context, prefix string, changed func(key string)) {
	payloads, unsubscribe := b.subscribe(b.things)
	defer unsubscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-payloads:
			var keys []string
			seen := map[string]bool{}
			for more := true; more; {
				if strings.HasPrefix(payload, prefix) && !seen[payload] {
					seen[payload] = true
					keys = append(keys, payload)
				}
				select {
				case payload = <-payloads:
				default:
					more = false
				}
			}
			for _, key := range keys {
				changed(key)
			}
		}
	}
}

const thingsSQL = `CREATE TABLE things (key text PRIMARY KEY, value int NOT NULL DEFAULT 0, updated_at timestamptz NOT NULL DEFAULT now())`

// things is the table, over a pool of its own.
type things struct {
	t    testing.TB
	pool *pgxpool.Pool

	pages atomic.Int64
	fail  atomic.Pointer[error] // what reads fail with
}

func newThings(t testing.TB, dsn string) *things {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	cfg.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	th := &things{t: t, pool: pool}
	_, err = pool.Exec(t.Context(), strings.Replace(thingsSQL, "TABLE", "TABLE IF NOT EXISTS", 1))
	require.NoError(t, err)
	return th
}

func (th *things) write(ctx context.Context, key string, value int) error {
	_, err := th.pool.Exec(ctx, `INSERT INTO things VALUES ($1, $2, clock_timestamp())
		ON CONFLICT (key) DO UPDATE SET value = $2, updated_at = clock_timestamp()`, key, value)
	return err
}

func (th *things) read(ctx context.Context, key string) (value int, err error) {
	err = th.pool.QueryRow(ctx, `SELECT value FROM things WHERE key = $1`, key).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return value, err
}

// changed is the CatchUp.
func (th *things) changed(ctx context.Context, since time.Time, after string) (page []Change, next string, err error) {
	th.pages.Add(1)
	if fail := th.fail.Load(); fail != nil {
		return nil, "", *fail
	}
	const limit = 1000
	at, key := since, ""
	if after != "" {
		stamp, rest, _ := strings.Cut(after, " ")
		key = rest
		if at, err = time.Parse(time.RFC3339Nano, stamp); err != nil {
			return nil, "", err
		}
	}
	rows, err := th.pool.Query(ctx, `SELECT key, xmin::text::bigint, updated_at FROM things
		WHERE updated_at > $1 OR updated_at = $1 AND key > $2 ORDER BY updated_at, key LIMIT $3`, at, key, limit)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	for rows.Next() {
		var c Change
		var xid int64
		if err := rows.Scan(&c.Payload, &xid, &at); err != nil {
			return nil, "", err
		}
		c.Channel, c.XID = thingChannel, uint32(xid)
		page = append(page, c)
	}
	if len(page) == limit {
		next = fmt.Sprintf("%s %s", at.Format(time.RFC3339Nano), page[limit-1].Payload)
	}
	return page, next, rows.Err()
}

// far keeps the interval out of the way: what is tested is not to be rescued by it.
const far = time.Hour

// replica is one process: a listener with its broadcaster, over a table.
type replica struct {
	*broadcaster
	things *things
}

func startReplica(t testing.TB, dsn string, th *things, change func(*ListenerConfig, *BacklogConfig)) *replica {
	t.Helper()
	r := newReplica(t, dsn, th, change)
	r.start(t)
	return r
}

// newReplica listens, and nobody takes what it hears yet.
func newReplica(t testing.TB, dsn string, th *things, change func(*ListenerConfig, *BacklogConfig)) *replica {
	t.Helper()
	r := &replica{broadcaster: newBroadcaster(), things: th}
	cfg := ListenerConfig{DSN: dsn, CatchUpInterval: far}
	if th != nil {
		cfg.CatchUp = th.changed
	}
	var backlogCfg BacklogConfig
	if change != nil {
		change(&cfg, &backlogCfg)
	}
	backlog, err := NewBacklog(backlogCfg, r.subscribers())
	require.NoError(t, err)
	r.listener, err = NewListener(cfg, backlog)
	require.NoError(t, err)
	return r
}

func (r *replica) start(t testing.TB) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.supervise()
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, r.listener.Close(ctx))
		close(r.done)
		<-ended
	})
}

func (r *replica) awaitReady(t testing.TB) {
	t.Helper()
	awaitThat(t, func() error { return r.listener.Ready() })
}

func awaitThat(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", patience, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// view is what one watcher shows its user: the value of each thing that it last read.
type view struct {
	r      *replica
	prefix string
	pause  atomic.Pointer[chan struct{}] // while set, the watcher does not go on

	mu     sync.Mutex
	values map[string]int
	reads  int
	errs   int
}

// startView watches from now on; it returns when the watcher is registered.
func (r *replica) startView(t testing.TB, prefix string) *view {
	t.Helper()
	r.mu.RLock()
	before := len(r.broadcaster.things)
	r.mu.RUnlock()
	v := r.startViewSometime(t, prefix, nil)
	awaitThat(t, func() error {
		r.mu.RLock()
		defer r.mu.RUnlock()
		if len(r.broadcaster.things) <= before {
			return errors.New("not registered")
		}
		return nil
	})
	return v
}

// startViewSometime watches from when register is closed.
func (r *replica) startViewSometime(t testing.TB, prefix string, register <-chan struct{}) *view {
	v := &view{r: r, prefix: prefix, values: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if register != nil {
			<-register
		}
		r.watch(ctx, prefix, func(key string) { v.changed(ctx, key) })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return v
}

func (v *view) changed(ctx context.Context, key string) {
	if pause := v.pause.Load(); pause != nil {
		select {
		case <-*pause:
		case <-ctx.Done():
			return
		}
	}
	value, err := v.r.things.read(ctx, key)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	if err != nil {
		v.errs++
		return
	}
	v.values[key] = value
}

func (v *view) value(key string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.values[key]
}

func (v *view) awaitValue(t testing.TB, key string, want int) {
	t.Helper()
	awaitThat(t, func() error {
		if got := v.value(key); got != want {
			return fmt.Errorf("%s shows %d, want %d", key, got, want)
		}
		return nil
	})
}

// announcer is the sending side of a service.
type announcer struct {
	pump   *Pump
	sender *Sender
}

func startAnnouncer(t testing.TB, dsn string) *announcer {
	t.Helper()
	pump, err := NewPump(thingChannel, groupChannel)
	require.NoError(t, err)
	sender, err := NewSender(SenderConfig{DSN: dsn})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for channel := range pump.Due() {
			pump.Settle(sender.Send(ctx, pump.Take(channel)))
		}
	}()
	t.Cleanup(func() {
		closeCtx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_, _ = pump.Close(closeCtx)
		cancel()
		<-ended
		_ = sender.Close()
	})
	return &announcer{pump: pump, sender: sender}
}

// update commits a change and announces it.
func (a *announcer) update(t testing.TB, th *things, key string, value int) {
	t.Helper()
	require.NoError(t, th.write(t.Context(), key, value))
	require.True(t, a.pump.Add(thingChannel, key))
}
