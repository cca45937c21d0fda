package impl

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

// What makes this pump the measure to compare with: a statement and a round trip for each payload, equal or not, on one connection.
func TestSerialPumpPaysARoundTripPerPayload(t *testing.T) {
	config := testDbConfig(t)
	dsn := database.GetPostgresDsn(t.Context(), config.Postgres)
	ear := newEar(t, dsn)
	proxy, err := pgproxy.Start(net.JoinHostPort(config.Postgres.Host, strconv.Itoa(config.Postgres.Port)), pgproxy.Options{})
	require.NoError(t, err)
	defer proxy.Close()
	const rtt, payloads = 4 * time.Millisecond, 250
	proxy.SetRTT(rtt)

	p, err := newSerialPump(proxy.DSN(dsn))
	require.NoError(t, err)
	start := time.Now()
	for i := range payloads {
		p.notify(t.Context(), actionUpdatesChannel, fmt.Sprint("proj/dev/run/a", i%10))
	}
	require.NoError(t, p.close(t.Context()))
	assert.GreaterOrEqual(t, time.Since(start), payloads*rtt)

	crossed := proxy.Stats().Matching(pumpSuffix)
	assert.EqualValues(t, 1, crossed.Connections)
	assert.EqualValues(t, payloads, crossed.Statements)
	assert.InDelta(t, payloads, crossed.RoundTrips, 3, "one each, and a few to prepare the statement")
	for i := range payloads {
		require.Equal(t, fmt.Sprint(actionUpdatesChannel, " proj/dev/run/a", i%10), ear.next())
	}
}

func TestSerialPumpMakesWritersWaitWhenFull(t *testing.T) {
	log := logged(t)
	// A port that takes connections and never says a word: the first payload stays in the pump's hands.
	p, err := newSerialPump(silentServer(t))
	require.NoError(t, err)
	canceled, cancel := context.WithCancel(t.Context())
	cancel() // what has become of the request plays no part

	p.notify(canceled, actionUpdatesChannel, "in hand")
	require.Eventually(t, func() bool { return len(p.queues[actionUpdatesChannel]) == 0 }, eventually, poll)
	for i := range serialQueueCapacity {
		p.notify(canceled, actionUpdatesChannel, fmt.Sprint(i))
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		p.notify(canceled, actionUpdatesChannel, "one too many")
	}()
	p.notify(canceled, runUpdatesChannel, "the other channel has room")
	select {
	case <-returned:
		t.Fatal("a writer did not wait for room")
	case <-time.After(100 * time.Millisecond):
	}

	ctx, cancelClose := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelClose()
	err = p.close(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, fmt.Sprintf("%d notifications not sent", serialQueueCapacity+1))
	<-returned
	assert.Contains(t, log(), "one too many")

	p.notify(t.Context(), actionUpdatesChannel, "after the end")
	assert.Contains(t, log(), "after the end")
}

func TestSerialPumpDropsWhatFailsAndGoesOn(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeSerial}))
	ear := newEar(t, r.dsn)
	log := logged(t)
	p := r.serial
	ctx := t.Context()

	p.notify(ctx, actionUpdatesChannel, "with \x00 in it")
	p.notify(ctx, actionUpdatesChannel, "good")
	assert.Equal(t, actionUpdatesChannel+" good", ear.next())
	assert.Contains(t, log(), "dropping notification")

	// A killed backend costs what meets it, not what comes after.
	_, err := ear.conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE '%notify-pump'`)
	require.NoError(t, err)
	heard := make(chan string, 1)
	go func() { heard <- ear.next() }()
	for i := 0; ; i++ {
		p.notify(ctx, runUpdatesChannel, fmt.Sprint(i))
		select {
		case got := <-heard:
			assert.Contains(t, got, runUpdatesChannel)
			return
		case <-time.After(poll):
		}
	}
}

func TestSerialPumpFlushesAtClose(t *testing.T) {
	config := testDbConfig(t)
	ear := newEar(t, openTestRepo(t, config).dsn)
	r := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{Mode: NotifyModeSerial}))
	for i := range 200 {
		r.announce(t.Context(), actionUpdatesChannel, fmt.Sprint(i))
	}
	require.NoError(t, r.Close(t.Context()))
	for i := range 200 {
		require.Equal(t, fmt.Sprintf("%s %d", actionUpdatesChannel, i), ear.next())
	}
}
