package pgproxy

import "sync"

// turns follows who has the word on one connection. A turn is a message that asks for ReadyForQuery (Query, Sync, FunctionCall)
// and that answer. A round trip is over when the client has all the answers it asked for: turns sent without waiting for the
// answers before them (a pipeline) make one round trip together.
type turns struct {
	mu       sync.Mutex
	asked    int64
	answered int64
	cutAt    int64 // number of the turn whose answer is withheld; 0: none
	onCut    func()
}

func (t *turns) ask() {
	t.mu.Lock()
	t.asked++
	t.mu.Unlock()
}

// answer notes a ReadyForQuery. roundTrip: the client has nothing to wait for any more. cut: this is the answer to withhold.
// The one that ends the start-up answers no turn.
func (t *turns) answer() (roundTrip, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered == t.asked {
		return false, false
	}
	t.answered++
	return t.answered == t.asked, t.answered == t.cutAt
}

// withhold arranges that the answer to a turn is kept back and onCut called instead: the last turn asked for, or the one to come.
func (t *turns) withhold(toCome bool, onCut func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cutAt, t.onCut = t.asked, onCut
	if toCome {
		t.cutAt++
	}
}

// withheld says whether what the server sends now belongs to the answer to withhold.
func (t *turns) withheld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cutAt != 0 && t.answered == t.cutAt-1
}
