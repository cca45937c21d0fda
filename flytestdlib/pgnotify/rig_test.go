package pgnotify

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const (
	// soon bounds the wait for what must happen; generous, for machines under load.
	soon = 60 * time.Second
	// look is the pause between two looks.
	look = 2 * time.Millisecond
)

// rig is a pump with its sender and the loop between them, as a service has them.
type rig struct {
	t       testing.TB
	pump    *Pump
	sender  *Sender
	abandon context.CancelFunc
	ended   chan struct{}
}

// startRig runs the loop until the end of the test, which checks that the counts add up and no connection has leaked.
func startRig(t testing.TB, cfg SenderConfig, channels ...string) *rig {
	t.Helper()
	pump, err := NewPump(channels...)
	require.NoError(t, err)
	sender, err := NewSender(cfg)
	require.NoError(t, err)
	ctx, abandon := context.WithCancel(context.Background())
	r := &rig{t: t, pump: pump, sender: sender, abandon: abandon, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		for channel := range pump.Due() {
			pump.Settle(sender.Send(ctx, pump.Take(channel)))
			requireSum(t, pump.Stats(channel).PendingStats)
		}
	}()
	t.Cleanup(func() { r.close(context.Background()) })
	return r
}

// close stops the rig as a service does, and tells what was left.
func (r *rig) close(ctx context.Context) (left int, err error) {
	left, err = r.pump.Close(ctx)
	r.abandon()
	<-r.ended
	require.NoError(r.t, r.sender.Close())
	require.Zero(r.t, r.sender.db.Stats().OpenConnections, "a connection has leaked")
	for _, c := range r.pump.order {
		requireSum(r.t, c.pending.Stats())
	}
	return left, err
}

// settled waits until everything was delivered and returns the channel's counts.
func (r *rig) settled(channel string) ChannelStats {
	r.t.Helper()
	var s ChannelStats
	require.Eventually(r.t, func() bool {
		s = r.pump.Stats(channel)
		return s.Pending+s.InFlight == 0
	}, soon, look)
	require.Zero(r.t, s.Failures)
	require.LessOrEqual(r.t, r.sender.db.Stats().OpenConnections, 1)
	return s
}

// ear is a session of its own that listens, as an independent receiver would.
type ear struct {
	t      testing.TB
	conn   *pgx.Conn
	cancel context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	heard map[string]int // "channel payload" → how often
	order []string
}

// listen returns when it listens. It ends with the test, or with its connection.
func listen(t testing.TB, dsn string, channels ...string) *ear {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	for _, channel := range channels {
		_, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize())
		require.NoError(t, err)
	}
	e := &ear{t: t, conn: conn, cancel: cancel, ended: make(chan struct{}), heard: map[string]int{}}
	go func() {
		defer close(e.ended)
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return
			}
			e.mu.Lock()
			said := n.Channel + " " + n.Payload
			e.heard[said]++
			e.order = append(e.order, said)
			e.mu.Unlock()
		}
	}()
	t.Cleanup(e.close)
	return e
}

func (e *ear) close() {
	e.cancel()
	<-e.ended
	_ = e.conn.Close(context.Background())
}

// missing returns how many of the payloads have not been heard.
func (e *ear) missing(channel string, payloads []string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	missing := 0
	for _, p := range payloads {
		if e.heard[channel+" "+p] == 0 {
			missing++
		}
	}
	return missing
}

// awaits waits until all of the payloads have been heard.
func (e *ear) awaits(channel string, payloads ...string) {
	e.t.Helper()
	deadline := time.Now().Add(soon)
	for {
		missing := e.missing(channel, payloads)
		if missing == 0 {
			return
		}
		require.False(e.t, time.Now().After(deadline), "on %s %d of %d have not been heard, of %d in all", channel, missing, len(payloads), e.total())
		time.Sleep(10 * look)
	}
}

// total returns the number of notifications heard, repeats included.
func (e *ear) total() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.order)
}

// admin is a session for looking and breaking.
func admin(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func query[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) (value T) {
	t.Helper()
	require.NoError(t, conn.QueryRow(context.Background(), sql, args...).Scan(&value))
	return value
}

// onlyPump is the condition that finds the pump's session of this database in pg_stat_activity.
const onlyPump = "datname = current_database() AND application_name LIKE '%notify-pump'"

// prefixed returns n different payloads that begin with prefix.
func prefixed(prefix string, n int) []string {
	payloads := make([]string, n)
	for i := range payloads {
		payloads[i] = fmt.Sprintf("%s/%06d", prefix, i)
	}
	return payloads
}

// addAll adds the payloads to one channel.
func (r *rig) addAll(channel string, payloads []string) {
	for _, p := range payloads {
		require.True(r.t, r.pump.Add(channel, p))
	}
}

// load adds payloads that are all different, from several writers, until stop is called, which returns all of them.
func (r *rig) load(writers int, pause time.Duration, channels ...string) (stop func() map[string][]string) {
	done := make(chan struct{})
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		added = map[string][]string{}
	)
	for w := range writers {
		wg.Go(func() {
			mine := map[string][]string{}
			for i := 0; ; i++ {
				select {
				case <-done:
					mu.Lock()
					defer mu.Unlock()
					for channel, payloads := range mine {
						added[channel] = append(added[channel], payloads...)
					}
					return
				case <-time.After(pause):
				}
				channel := channels[i%len(channels)]
				payload := fmt.Sprintf("load/%d/%d", w, i)
				if r.pump.Add(channel, payload) {
					mine[channel] = append(mine[channel], payload)
				}
			}
		})
	}
	return func() map[string][]string {
		close(done)
		wg.Wait()
		return added
	}
}

// withDatabase returns dsn, in keyword form, for another database.
func withDatabase(dsn, name string) string { return strings.TrimSpace(dsn) + " dbname=" + name }
