package pgnotify

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func change(payload string, xid uint32) Change {
	return Change{Channel: "c", Payload: payload, XID: xid}
}

func TestSightingsCoverWhatWasCommittedBeforeItsNotificationWasSent(t *testing.T) {
	s := newSightings(100)
	s.saw("c", "a", mustParse(t, "50:60:55"))
	assert.True(t, s.cover(change("a", 54)))
	assert.False(t, s.cover(change("a", 55)), "still open when the notification was sent: it tells of an earlier change")
	assert.False(t, s.cover(change("a", 61)))
	assert.False(t, s.cover(change("a", 0)), "nothing is known of it")
	assert.False(t, s.cover(change("b", 54)), "not heard of")
	assert.False(t, s.cover(Change{Channel: "d", Payload: "a", XID: 54}))
}

func TestSightingsOfASweepThatIsCompleteGiveWayToItsSnapshot(t *testing.T) {
	s := newSightings(100)
	s.saw("c", "before", mustParse(t, "50:50:"))
	s.mark()
	s.saw("c", "during", mustParse(t, "90:90:"))
	assert.True(t, s.cover(change("before", 49)))
	s.settle(mustParse(t, "80:80:"))
	assert.Len(t, s.recent, 1)
	assert.Nil(t, s.older)
	assert.True(t, s.cover(change("before", 79)), "that sweep has seen to it")
	assert.False(t, s.cover(change("before", 85)))
	assert.True(t, s.cover(change("during", 85)))
}

func TestSightingsOutliveASweepThatFails(t *testing.T) {
	s := newSightings(100)
	s.saw("c", "a", mustParse(t, "50:50:"))
	s.mark()
	s.saw("c", "b", mustParse(t, "60:60:"))
	s.mark() // another sweep, the first has not settled
	assert.True(t, s.cover(change("a", 49)))
	assert.True(t, s.cover(change("b", 59)))
	s.settle(mustParse(t, "70:70:"))
	assert.True(t, s.cover(change("a", 69)))
}

func TestSightingsForget(t *testing.T) {
	s := newSightings(2)
	s.saw("c", "a", mustParse(t, "50:50:"))
	s.saw("c", "b", mustParse(t, "50:50:"))
	s.saw("c", "one too many", mustParse(t, "50:50:"))
	assert.False(t, s.cover(change("one too many", 49)))
	s.saw("c", "a", mustParse(t, "60:60:"))
	assert.True(t, s.cover(change("a", 59)), "those that are known are kept up to date")
	s.mark()
	s.settle(mustParse(t, "70:70:"))
	s.reset()
	assert.False(t, s.cover(change("a", 49)))
}
