package pgproxy

import (
	"io"
	"net"
)

// link is the far end of one direction: where toxiproxy writes what has crossed the delay.
//
// Write never fails. A toxiproxy link whose destination fails stops reading and leaves its stages blocked for ever; so a broken
// socket is cut here, which ends the link from its source, and what is still on its way is thrown away.
type link struct {
	conn *conn
	dst  *net.TCPConn
	tap  *serverTap // nil towards the server
}

// Write hands bytes on, or swallows them in the black hole.
func (l *link) Write(p []byte) (int, error) {
	if l.conn.swallowed() {
		return len(p), nil
	}
	forward := p
	cut := false
	if l.tap != nil {
		forward, cut = l.tap.scan(p)
	}
	if len(forward) > 0 {
		if _, err := l.dst.Write(forward); err != nil {
			cut = true
		}
	}
	if cut {
		l.conn.cut()
	}
	if l.tap != nil {
		l.tap.announce()
	}
	return len(p), nil
}

// Close is called once, by toxiproxy, when the source has ended and all its bytes were written.
func (l *link) Close() error {
	l.conn.directionEnded(l.dst)
	l.conn.proxy.wg.Done()
	return nil
}

// plainReader hides all but Read, so that the copy loop reads chunk by chunk and stamps each with its time of arrival.
type plainReader struct{ io.Reader }
