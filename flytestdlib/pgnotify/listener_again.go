package pgnotify

import (
	"sync"
	"time"
)

// againPause is how long a payload waits that is to be told again. What failed then, a database that restarts, a pool that is
// exhausted, needs a moment; and a consumer that fails for ever must not go in circles faster than this.
const againPause = time.Second

// again holds the payloads that are to be told once more, each once.
type again struct {
	mu      sync.Mutex
	waiting map[sighting]*time.Timer
	closed  bool
}

// TellAgain hands a payload on once more, to all subscribers, a second from now, or when there is a connection again: while the server is
// away all of them would fail all the while. It is for a consumer that has taken the payload, could not
// read what it tells of, and skipped it: nobody else knows that it has missed something. It does not wait; a payload that
// is to be told again already is not told twice. After Close it does nothing.
func (l *Listener) TellAgain(channel, payload string) {
	a, key := &l.again, sighting{channel, payload}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, waits := a.waiting[key]; waits || a.closed {
		return
	}
	if a.waiting == nil {
		a.waiting = map[sighting]*time.Timer{}
	}
	a.waiting[key] = time.AfterFunc(againPause, func() { l.tellNow(key) })
}

func (l *Listener) tellNow(key sighting) {
	a := &l.again
	connected := l.Ping() == nil
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
	case !connected:
		a.waiting[key].Reset(againPause)
	default:
		delete(a.waiting, key)
		l.backlog.arrive(key.channel, key.payload) // which waits for nothing
	}
}

func (a *again) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, timer := range a.waiting {
		timer.Stop()
	}
	a.waiting = nil
}
