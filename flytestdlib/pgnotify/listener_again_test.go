package pgnotify

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTellAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backlog, err := NewBacklog(BacklogConfig{}, newBroadcaster().subscribers())
		require.NoError(t, err)
		l := &Listener{backlog: backlog, up: true}
		arrived := func() uint64 { return backlog.Stats().Arrived }
		connect := func(up bool) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.up = up
		}

		for range 100 {
			l.TellAgain(thingChannel, "a")
		}
		l.TellAgain(groupChannel, "a")
		time.Sleep(againPause - time.Nanosecond)
		synctest.Wait()
		assert.Zero(t, arrived())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.EqualValues(t, 2, arrived())

		l.TellAgain(thingChannel, "a")
		time.Sleep(againPause)
		synctest.Wait()
		assert.EqualValues(t, 3, arrived(), "when it has been told, it may be asked for again")

		connect(false)
		l.TellAgain(thingChannel, "a")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 3, arrived(), "who would be told could read nothing")
		connect(true)
		time.Sleep(againPause)
		synctest.Wait()
		assert.EqualValues(t, 4, arrived())

		l.TellAgain(thingChannel, "b")
		b := sighting{thingChannel, "b"}
		timer := l.again.waiting[b]
		l.again.close()
		assert.False(t, timer.Stop(), "it runs no more")
		l.TellAgain(thingChannel, "c")
		assert.Empty(t, l.again.waiting)
		l.tellNow(b) // whose time came while it was being closed
		connect(false)
		l.tellNow(b)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 4, arrived())
	})
}

func TestListenerCloseEndsTheTellingAgain(t *testing.T) {
	backlog, err := NewBacklog(BacklogConfig{}, newBroadcaster().subscribers())
	require.NoError(t, err)
	l, err := NewListener(ListenerConfig{DSN: "host=127.0.0.1 port=1"}, backlog)
	require.NoError(t, err)
	l.TellAgain(thingChannel, "a")
	require.NotEmpty(t, l.again.waiting)
	require.NoError(t, l.Close(t.Context()))
	require.Empty(t, l.again.waiting)
	l.TellAgain(thingChannel, "a")
	require.Empty(t, l.again.waiting)
}
