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
		l.again.close()
		l.TellAgain(thingChannel, "c")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 4, arrived())
	})
}
