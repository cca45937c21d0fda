package pgnotify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOutageTellsBeginningAndEnd(t *testing.T) {
	var o outage
	now := time.Unix(0, 0)
	require.False(t, o.healed(), "nothing was broken")
	require.True(t, o.failed(now))
	require.False(t, o.failed(now.Add(time.Second)))
	require.True(t, o.failed(now.Add(11*time.Second)))
	require.Equal(t, 3, o.failures)
	require.True(t, o.healed())
	require.False(t, o.healed())
}

func TestOutageTellsAThousandFailuresInAHandfulOfLines(t *testing.T) {
	var o outage
	now, lines := time.Unix(0, 0), 0
	b := newBackoff()
	for range 1000 {
		if o.failed(now) {
			lines++
		}
		now = now.Add(b.next())
	}
	require.GreaterOrEqual(t, lines, 3)
	require.LessOrEqual(t, lines, 10)
}

// A backend that is killed again and again, each time answered by a fresh connection.
func TestOutageDoesNotTellEachFlap(t *testing.T) {
	var o outage
	now, lines, flaps := time.Unix(0, 0), 0, 0
	told := 0
	for range 300 { // a minute
		flaps++
		if o.failed(now) {
			lines++
			told += o.takeUntold()
		}
		if o.healed() {
			lines++
		}
		now = now.Add(200 * time.Millisecond)
	}
	require.LessOrEqual(t, lines, 14)
	require.Equal(t, flaps, told+o.takeUntold()+lines/2, "every outage is either told or counted")
}

// The lines about an outage become rare; those about the next one begin anew.
func TestOutageThatFollowsALongOneIsTold(t *testing.T) {
	var o outage
	now := time.Unix(0, 0)
	for range 24 * 60 { // a day
		o.failed(now)
		now = now.Add(time.Minute)
	}
	for !o.failed(now) {
		now = now.Add(time.Second)
	}
	require.True(t, o.healed())

	now = now.Add(outageLineMin / 2)
	require.False(t, o.failed(now), "there was a line just now")
	now = now.Add(outageLineMin / 2)
	require.True(t, o.failed(now))
	require.False(t, o.failed(now.Add(outageLineMin-1)))
	require.True(t, o.failed(now.Add(outageLineMin)))
	require.False(t, o.failed(now.Add(5*outageLineMin-1)))
	require.True(t, o.failed(now.Add(5*outageLineMin)))
}
