package pgproxy

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// conn is one client's connection and the server connection made for it. It owns both sockets. It is freed when both directions
// have ended, or by cut.
type conn struct {
	proxy  *Proxy
	id     uint64
	client *net.TCPConn

	app      atomic.Pointer[string] // nil until the start-up message was read
	counters *counters              // set with app

	// lost is set when the black hole took something from this connection.
	lost atomic.Bool
	turn turns

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled
	gone   bool
	done   chan struct{} // closed with gone
	ended  int           // directions that have ended, of 2
}

func newConn(p *Proxy, client *net.TCPConn) *conn {
	return &conn{proxy: p, client: client, done: make(chan struct{})}
}

// serve reads the start-up message, dials the server and starts the two links; it returns when they run.
func (c *conn) serve() {
	defer c.proxy.wg.Done()
	first, err := readStartup(c.client, c.proxy.hole.Load)
	if err != nil {
		c.cut()
		return
	}
	c.counters = c.proxy.stats.of(first.app)
	c.app.Store(&first.app)
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(c.proxy.ctx, "tcp", c.proxy.upstreamAddr())
	if err != nil {
		c.cut()
		return
	}
	if !c.attach(server.(*net.TCPConn)) {
		_ = server.Close()
		return
	}
	if !first.cancel {
		c.counters.connections.Add(1)
	}
	c.proxy.wg.Add(2) // the ends of the two links: see link.Close
	name := strconv.FormatUint(c.id, 10)
	toServer := &link{conn: c, dst: server.(*net.TCPConn)}
	toClient := &link{conn: c, dst: c.client, tap: &serverTap{conn: c}}
	c.proxy.links.Toxics.StartLink(c.proxy.server, name+"up", newClientTap(c, first.raw), toServer, stream.Upstream)
	c.proxy.links.Toxics.StartLink(c.proxy.server, name+"down", plainReader{server}, toClient, stream.Downstream)
}

// attach takes the server's socket over; false when the connection was cut meanwhile.
func (c *conn) attach(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return false
	}
	c.server = server
	return true
}

// cut resets both sockets. Bytes on their way are lost.
func (c *conn) cut() {
	c.reset()
	c.proxy.remove(c)
}

func (c *conn) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	close(c.done)
	for _, socket := range []*net.TCPConn{c.client, c.server} {
		if socket != nil {
			_ = socket.SetLinger(0) // a reset, not an orderly end
			_ = socket.Close()
		}
	}
}

// swallowed says whether the black hole takes what is about to cross. Whoever takes something while the hole is being switched
// off cuts the connection in its place: it may have looked before the loss was noted.
func (c *conn) swallowed() bool {
	if !c.proxy.hole.Load() {
		return false
	}
	c.lost.Store(true)
	if !c.proxy.hole.Load() {
		c.cut()
	}
	return true
}

// directionEnded closes the socket that the direction wrote to, which ends the other direction too; the second call frees the
// connection. While the black hole swallows, the far side must not learn of it: the socket then stays open until cut.
func (c *conn) directionEnded(dst *net.TCPConn) {
	if c.swallowed() {
		return
	}
	c.mu.Lock()
	_ = dst.Close()
	c.ended++
	last := c.ended == 2 && !c.gone
	if last {
		c.gone = true
		close(c.done)
	}
	c.mu.Unlock()
	if last {
		c.proxy.remove(c)
	}
}
