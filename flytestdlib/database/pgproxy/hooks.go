package pgproxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Statement is one execution of a statement, as the hooks see it.
type Statement struct {
	// App is the connection's application_name.
	App string
	// SQL is the statement's text, whether sent as a simple query or executed after Parse and Bind; its first 4,096 bytes.
	SQL string
}

type hold struct {
	match func(Statement) bool
	delay time.Duration
}

type cut struct {
	match func(Statement) bool
	done  chan struct{}
}

// hooks are the faults at one statement. Without any, a look costs one atomic load.
type hooks struct {
	armed atomic.Int32 // holds and cuts
	mu    sync.Mutex
	holds []*hold
	cuts  []*cut
}

// HoldBack delays every statement that match accepts: it and what the client sends after it reach the server only after delay.
// What was sent before goes on at once. match is called on the connection's goroutine, for one statement at a time per
// connection, and must not call the proxy. The returned function ends it for statements to come.
func (p *Proxy) HoldBack(match func(Statement) bool, delay time.Duration) (remove func()) {
	h := &hold{match: match, delay: delay}
	p.hooks.mu.Lock()
	defer p.hooks.mu.Unlock()
	p.hooks.holds = append(p.hooks.holds, h)
	p.hooks.armed.Add(1)
	return func() {
		p.hooks.mu.Lock()
		defer p.hooks.mu.Unlock()
		if i := slices.Index(p.hooks.holds, h); i >= 0 {
			p.hooks.holds = slices.Delete(p.hooks.holds, i, i+1)
			p.hooks.armed.Add(-1)
		}
	}
}

// CutBeforeReply cuts a connection once: the next statement that match accepts is executed by the server, and committed when it
// ends its transaction, but of the answer nothing reaches the client: its connection is reset instead. The returned channel is
// closed when that has happened. match is bound as in HoldBack.
func (p *Proxy) CutBeforeReply(match func(Statement) bool) <-chan struct{} {
	c := &cut{match: match, done: make(chan struct{})}
	p.hooks.mu.Lock()
	defer p.hooks.mu.Unlock()
	p.hooks.cuts = append(p.hooks.cuts, c)
	p.hooks.armed.Add(1)
	return c.done
}

// holdBack is how long the statement is to wait: the longest of the holds that match.
func (h *hooks) holdBack(s Statement) time.Duration {
	if h.armed.Load() == 0 {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var longest time.Duration
	for _, hold := range h.holds {
		if hold.match(s) {
			longest = max(longest, hold.delay)
		}
	}
	return longest
}

// takeCut takes the first matching cut out of the list and returns what to call when it is done; nil when none matches.
func (h *hooks) takeCut(s Statement) func() {
	if h.armed.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.cuts, func(c *cut) bool { return c.match(s) })
	if i < 0 {
		return nil
	}
	done := h.cuts[i].done
	h.cuts = slices.Delete(h.cuts, i, i+1)
	h.armed.Add(-1)
	return func() { close(done) }
}
