package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

// followEvery has addresses looked at that often, until the end of the test.
func followEvery(t testing.TB, interval time.Duration) {
	before := followInterval
	followInterval = interval
	t.Cleanup(func() { followInterval = before })
}

// splitBrain is a primary behind an address, and what makes the address lead to its former standby while the primary stays as it is: up, taking
// writes, and keeping the connections that it has.
func splitBrain(t *testing.T) (old, next *dbtest.Server, dsn string, failOver func()) {
	old = dbtest.StartServer(t)
	next = old.Standby(t)
	proxy := startProxy(t, old.DSN(), pgproxy.Options{})
	return old, next, proxy.DSN(old.DSN()), func() {
		next.Promote()
		proxy.SetUpstream(net.JoinHostPort("127.0.0.1", fmt.Sprint(next.Port())))
	}
}

// awaitSessionAt waits until the server has a session of this role.
func awaitSessionAt(t *testing.T, server *dbtest.Server, role string) {
	t.Helper()
	looker := admin(t, server.DSN())
	awaitThat(t, func() error {
		if query[int](t, looker, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%' || $1", role) == 0 {
			return fmt.Errorf("%s is elsewhere", role)
		}
		return nil
	})
}

func TestAPrimaryThatNobodyFencedIsLeft(t *testing.T) {
	followEvery(t, 50*time.Millisecond)
	_, next, dsn, failOver := splitBrain(t)
	log := captureLog(t)
	th := newThings(t, dsn)
	r := startReplica(t, dsn, th, nil)
	r.awaitReady(t)
	a := startAnnouncer(t, dsn)
	v := r.startView(t, "run/")
	a.update(t, th, "run/a", 1)
	v.awaitValue(t, "run/a", 1)

	failOver()
	th.pool.Reset() // the pool's connections reach their age
	awaitSessionAt(t, next, listenerRole)
	awaitThat(t, func() error { // a pump that has nothing to send has no reason to go
		a.pump.Add(thingChannel, "nobody")
		if a.sender.Stats().Connects < 2 {
			return errors.New("the pump sends to the old server")
		}
		return nil
	})
	awaitSessionAt(t, next, senderRole)
	r.awaitReady(t)
	a.update(t, th, "run/a", 2)
	v.awaitValue(t, "run/a", 2)
	assert.EqualValues(t, 2, r.listener.Stats().Connects)
	assert.EqualValues(t, 2, a.sender.Stats().Connects)
	assert.Regexp(t, "not listening for notifications, 1 attempts failed, next one in [0-9.m]+s: "+errMoved.Error(), log.String())
	assert.Contains(t, log.String(), errMoved.Error()+": notifications")
}

// The catch-ups read from the new server before the listener has left the old one, and judge the rows of the one by the transaction numbers of
// the other.
func TestWhatWasReadFromTheNewServerTooEarlyIsReadAgain(t *testing.T) {
	followEvery(t, 3*time.Second)
	old, next, dsn, failOver := splitBrain(t)
	th := newThings(t, dsn)
	r := startReplica(t, dsn, th, func(l *ListenerConfig, _ *BacklogConfig) {
		l.CatchUpInterval, l.CatchUpOverlap = 20*time.Millisecond, time.Millisecond
	})
	r.awaitReady(t)
	v := r.startView(t, "run/")

	failOver()
	th.pool.Reset()
	looker := admin(t, old.DSN())
	for range 1000 { // so that every transaction of the new server seems to have ended long ago
		query[string](t, looker, "SELECT pg_current_xact_id()::text")
	}
	r.awaitCatchUp(t)
	require.NoError(t, th.write(t.Context(), "run/a", 1)) // announced by somebody to those who listen there
	before := r.listener.Stats()
	if before.Connects == 1 {
		awaitThat(t, func() error {
			if now := r.listener.Stats(); now.CatchUps < before.CatchUps+5 && now.Connects == 1 {
				return errors.New("no catch-up")
			}
			return nil
		})
	}
	v.awaitValue(t, "run/a", 1)
	awaitSessionAt(t, next, listenerRole)
	assert.EqualValues(t, 2, r.listener.Stats().Connects)
}

// What cannot be reached, or is a standby, is no reason to go.
func TestAConnectionIsKeptWhileTheAddressLeadsToNothingBetter(t *testing.T) {
	followEvery(t, 20*time.Millisecond)
	old := dbtest.StartServer(t)
	standby := old.Standby(t)
	proxy := startProxy(t, old.DSN(), pgproxy.Options{})
	th := newThings(t, old.DSN())
	dsn := proxy.DSN(old.DSN())
	r := startReplica(t, dsn, th, nil)
	r.awaitReady(t)
	a := startAnnouncer(t, dsn)
	v := r.startView(t, "run/")
	value := 0
	for _, weather := range []struct {
		name  string
		begin func()
	}{
		{"the same server", func() {}},
		{"a standby", func() { proxy.SetUpstream(net.JoinHostPort("127.0.0.1", fmt.Sprint(standby.Port()))) }},
		{"nothing", func() { require.NoError(t, proxy.Refuse(true)) }},
	} {
		weather.begin()
		for range 3 {
			time.Sleep(50 * time.Millisecond)
			value++
			a.update(t, th, "run/a", value)
			v.awaitValue(t, "run/a", value)
		}
		assert.EqualValues(t, 1, r.listener.Stats().Connects, weather.name)
		assert.EqualValues(t, 1, a.sender.Stats().Connects, weather.name)
	}
}

func TestAFollowerWaitsNoLongerThanForADial(t *testing.T) {
	dsn := testDSN(t)
	proxy := startProxy(t, dsn, pgproxy.Options{})
	proxy.HoldBack(func(s pgproxy.Statement) bool { return s.SQL == serverSQL }, time.Hour)
	f, err := newFollower(proxy.DSN(dsn), 500*time.Millisecond)
	require.NoError(t, err)
	_, err = f.probe(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAFollowerDoesNotFollowFromNowhere(t *testing.T) {
	followEvery(t, 5*time.Millisecond)
	f, err := newFollower(testDSN(t), DefaultDialTimeout)
	require.NoError(t, err)
	moved := make(chan struct{}, 100)
	note := func(time.Time) { moved <- struct{}{} }
	f.follow("", note)
	time.Sleep(200 * time.Millisecond)
	f.follow("some other server", note)
	<-moved
	time.Sleep(200 * time.Millisecond)
	f.stop()
	f.stop()
	assert.Empty(t, moved, "the one and once")
}
