package pgnotify

import (
	"testing"
)

func TestListenerDeliversWhatIsAnnounced(t *testing.T) {
	dsn := testDSN(t)
	th := newThings(t, dsn)
	r := startReplica(t, dsn, th, nil)
	r.awaitReady(t)
	v := r.startView(t, "run/")
	a := startAnnouncer(t, dsn)

	for i := 1; i <= 3; i++ {
		a.update(t, th, "run/a", i)
		v.awaitValue(t, "run/a", i)
	}
}
