package pgproxy

import (
	"bytes"
	"net"
	"time"
)

// Client message kinds that are looked at.
const (
	kindQuery        = 'Q'
	kindParse        = 'P'
	kindBind         = 'B'
	kindExecute      = 'E'
	kindClose        = 'C'
	kindSync         = 'S'
	kindFunctionCall = 'F'
)

// clientTap reads what the client sends, counts it, and holds back what a hook wants held back.
type clientTap struct {
	conn  *conn
	frame framer

	statements map[string]string // prepared: name → SQL
	portals    map[string]string // bound: name → SQL

	rest    []byte        // read, not yet handed on
	scanned int           // how much of rest has been looked at
	hold    time.Duration // to wait before rest is handed on
}

func newClientTap(c *conn, startup []byte) *clientTap {
	return &clientTap{
		conn:       c,
		frame:      framer{keep: clientBody},
		statements: map[string]string{},
		portals:    map[string]string{},
		rest:       startup,
		scanned:    len(startup),
	}
}

func clientBody(kind byte) bool {
	switch kind {
	case kindQuery, kindParse, kindBind, kindExecute, kindClose:
		return true
	}
	return false
}

// Read hands on what the client sent. At a message to hold back it first hands on what came before it.
func (t *clientTap) Read(p []byte) (int, error) {
	if t.hold > 0 {
		if !t.wait() {
			return 0, net.ErrClosed
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	if n == 0 {
		var err error
		if n, err = t.conn.client.Read(p); err != nil {
			return n, err
		}
	}
	known := min(t.scanned, n)
	t.scanned -= known
	t.conn.counters.toServer.Add(int64(n))
	for end := known; end < n; {
		start := end
		size, complete := t.frame.next(p[start:n])
		end += size
		if !complete {
			break
		}
		if t.hold = t.message(); t.hold > 0 {
			t.rest = append(bytes.Clone(p[start:n]), t.rest...)
			t.scanned = end - start
			t.conn.counters.toServer.Add(int64(start - n))
			if start == 0 {
				return t.Read(p)
			}
			return start, nil
		}
	}
	return n, nil
}

// wait sits the hold out; false when the connection ended meanwhile.
func (t *clientTap) wait() bool {
	timer := time.NewTimer(t.hold)
	defer timer.Stop()
	t.hold = 0
	select {
	case <-timer.C:
		return true
	case <-t.conn.done:
		return false
	}
}

// message notes one complete message and says how long it is to be held back.
func (t *clientTap) message() time.Duration {
	switch t.frame.kind {
	case kindQuery:
		t.conn.turn.ask()
		return t.statement(text(&t.frame.body), false)
	case kindParse:
		name := text(&t.frame.body)
		t.statements[name] = text(&t.frame.body)
	case kindBind:
		portal := text(&t.frame.body)
		t.portals[portal] = t.statements[text(&t.frame.body)]
	case kindExecute:
		return t.statement(t.portals[text(&t.frame.body)], true)
	case kindClose:
		t.forget()
	case kindSync, kindFunctionCall:
		t.conn.turn.ask()
	}
	return 0
}

// statement counts one execution and lets the hooks look at it. Its turn is still to come in the extended protocol (Sync).
func (t *clientTap) statement(sql string, turnToCome bool) time.Duration {
	t.conn.counters.statements.Add(1)
	s := Statement{App: *t.conn.app.Load(), SQL: sql}
	if onCut := t.conn.proxy.hooks.takeCut(s); onCut != nil {
		t.conn.turn.withhold(turnToCome, onCut)
	}
	return t.conn.proxy.hooks.holdBack(s)
}

func (t *clientTap) forget() {
	if len(t.frame.body) == 0 {
		return
	}
	kind := t.frame.body[0]
	rest := t.frame.body[1:]
	if kind == 'S' {
		delete(t.statements, text(&rest))
	} else {
		delete(t.portals, text(&rest))
	}
}

// text takes a zero-terminated string off the body; what is left of it when the end was not kept.
func text(body *[]byte) string {
	s, rest, _ := bytes.Cut(*body, []byte{0})
	*body = rest
	return string(s)
}
