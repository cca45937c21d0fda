package pgnotify

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
)

// One line for each step of an outage, but not for each step of each outage when they come and go.
func TestListenerDoesNotFloodTheLogWhenItFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Listener{failures: map[Reason]uint64{}}
		fail := func(times int) {
			for range times {
				l.down(errors.New("no"), time.Second)
				time.Sleep(100 * time.Millisecond)
			}
			l.connected(&pgconn.PgConn{})
		}
		lines := logged(t, func() { fail(2 * stepLines) })
		assert.Len(t, lines, stepLines+1, "and one for the end")

		lines = logged(t, func() {
			for range 100 { // a minute
				fail(6)
			}
		})
		assert.LessOrEqual(t, len(lines), 6*7, "of one outage every ten seconds")
		assert.NotEmpty(t, lines)
	})
}
