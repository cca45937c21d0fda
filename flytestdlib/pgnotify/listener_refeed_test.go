package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

// A connection hears from its LISTEN on, and knows the server's clock two answers later. Who misses something in between must not be
// given the whole table for it.
func TestListenerDoesNotReadTheWholeTableForWhatArrivedBeforeItKnewTheClock(t *testing.T) {
	dsn := testDSN(t)
	proxy := startProxy(t, dsn, pgproxy.Options{})
	marking := make(chan struct{}, 10)
	release := proxy.HoldBack(func(s pgproxy.Statement) bool {
		mark := strings.Contains(s.SQL, "pg_postmaster_start_time") && strings.Contains(s.SQL, "pg_stat_activity")
		if mark {
			marking <- struct{}{}
		}
		return mark
	}, 3*time.Second)
	defer release()

	th := newThings(t, dsn)
	require.NoError(t, th.write(t.Context(), "run/of old", 1))
	_, err := th.pool.Exec(t.Context(), "UPDATE things SET updated_at = '2001-01-01'")
	require.NoError(t, err)
	var mu sync.Mutex
	var asked []time.Time
	started := time.Now()
	r := startReplica(t, proxy.DSN(dsn), th, func(l *ListenerConfig, b *BacklogConfig) {
		l.PingTimeout, b.MaxPayloads = patience, 10
		l.CatchUp = func(ctx context.Context, since time.Time, after string) ([]Change, string, error) {
			mu.Lock()
			asked = append(asked, since)
			mu.Unlock()
			return th.changed(ctx, since, after)
		}
	})

	<-marking
	for i := range 100 {
		key := fmt.Sprint("run/", i)
		require.NoError(t, th.write(t.Context(), key, i))
		_, err := th.pool.Exec(t.Context(), "SELECT pg_notify($1, $2)", thingChannel, key)
		require.NoError(t, err)
	}
	awaitThat(t, func() error {
		if got := r.listener.Stats().Backlog.HandedOn; got == 0 {
			return errors.New("nothing has been heard")
		}
		return nil
	})
	v := r.startView(t, "run/")
	awaitThat(t, func() error {
		if r.listener.Stats().Backlog.Gaps == 0 {
			return errors.New("the watcher has not been found to lack anything")
		}
		return nil
	})
	for i := range 100 {
		v.awaitValue(t, fmt.Sprint("run/", i), i)
	}
	r.awaitReady(t)
	mu.Lock()
	defer mu.Unlock()
	for _, since := range asked {
		assert.WithinRange(t, since, started.Add(-time.Minute), time.Now())
	}
	assert.Zero(t, v.value("run/of old"))
}
