package pgproxy

// Server message kinds that are looked at.
const (
	kindReadyForQuery        = 'Z'
	kindNotificationResponse = 'A'
)

// serverTap looks at what is about to reach the client.
type serverTap struct {
	conn  *conn
	frame framer
	onCut func() // set when the connection is being cut for a hook
}

// scan counts the messages in p, and says what of p to hand on and whether to cut the connection after that.
func (t *serverTap) scan(p []byte) (forward []byte, cut bool) {
	withheld := t.conn.turn.withheld()
	pass := len(p)
	if withheld {
		pass = 0
	}
	for end := 0; end < len(p); {
		size, complete := t.frame.next(p[end:])
		end += size
		if !complete {
			break
		}
		switch t.frame.kind {
		case kindNotificationResponse:
			if !withheld {
				t.conn.counters.notifications.Add(1)
			}
		case kindReadyForQuery:
			roundTrip, cut := t.conn.turn.answer()
			if cut {
				t.onCut = t.conn.turn.onCut
				t.conn.counters.toClient.Add(int64(pass))
				return p[:pass], true
			}
			if roundTrip {
				t.conn.counters.roundTrips.Add(1)
			}
			if !withheld && t.conn.turn.withheld() {
				withheld, pass = true, end
			}
		}
	}
	t.conn.counters.toClient.Add(int64(pass))
	return p[:pass], false
}

// announce tells the hook that its cut has happened.
func (t *serverTap) announce() {
	if t.onCut != nil {
		t.onCut()
		t.onCut = nil
	}
}
