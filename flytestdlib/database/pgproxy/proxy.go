package pgproxy

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// dialTimeout bounds the proxy's own connecting to the server. The client has its own, shorter or longer.
const dialTimeout = 10 * time.Second

// Options of Start. The zero value is a proxy without delay on a free port of the loopback interface.
type Options struct {
	// Listen is the address to listen on, "host:port". Default "127.0.0.1:0": a free port.
	Listen string
	// RTT is the initial round-trip time, see SetRTT. Default 0: no delay.
	RTT time.Duration
	// Jitter is the initial spread, see SetJitter. Default 0.
	Jitter time.Duration
}

// Proxy is a running proxy. All methods may be called from any goroutine, at any time; after Close they change nothing.
type Proxy struct {
	addr     string
	links    *toxiproxy.Proxy // never started: it lends its links, the listener is ours
	server   *toxiproxy.ApiServer
	toServer *delay
	toClient *delay

	hole  atomic.Bool
	hooks hooks
	stats stats

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // accept loops, connections, link ends

	mu       sync.Mutex
	upstream string
	listener net.Listener // nil while refusing, and after Close
	conns    map[*conn]struct{}
	nextID   uint64
	closed   bool
}

// Start listens and forwards to upstreamAddr ("host:port"), which need not answer yet: it is dialled once per connection. The
// caller ends the proxy with Close.
func Start(upstreamAddr string, opts Options) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(upstreamAddr); err != nil {
		return nil, fmt.Errorf("pgproxy: upstream address %q: %w", upstreamAddr, err)
	}
	listen := opts.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("pgproxy: listen: %w", err)
	}
	p := &Proxy{
		addr:     listener.Addr().String(),
		server:   toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		upstream: upstreamAddr,
		listener: listener,
		conns:    map[*conn]struct{}{},
		stats:    stats{apps: map[string]*counters{}},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.links = toxiproxy.NewProxy(p.server, "pgproxy", p.addr, upstreamAddr)
	if p.toServer, err = addDelay(p.links, "upstream"); err == nil {
		p.toClient, err = addDelay(p.links, "downstream")
	}
	if err != nil {
		_ = listener.Close()
		p.cancel()
		return nil, err
	}
	p.SetRTT(opts.RTT)
	p.SetJitter(opts.Jitter)
	p.wg.Add(1)
	go p.accept(listener)
	return p, nil
}

// Addr is where clients connect, "host:port". It stays the same until Close.
func (p *Proxy) Addr() string { return p.addr }

// SetRTT sets the time that a round trip takes on the wire, for bytes that enter from now on: half of it in each direction.
// Resolution on Linux about 0.1 ms, elsewhere about 1 ms. Negative means 0.
func (p *Proxy) SetRTT(rtt time.Duration) {
	rtt = max(rtt, 0)
	p.toServer.base.Store(int64(rtt / 2))
	p.toClient.base.Store(int64(rtt - rtt/2))
}

// SetJitter lets round trips take up to jitter longer than the RTT, evenly distributed; the order of bytes is kept.
func (p *Proxy) SetJitter(jitter time.Duration) {
	jitter = max(jitter, 0)
	p.toServer.jitter.Store(int64(jitter / 2))
	p.toClient.jitter.Store(int64(jitter - jitter/2))
}

// SetUpstream points new connections at another server. Existing connections stay where they are.
func (p *Proxy) SetUpstream(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = addr
}

// Blackhole swallows all bytes in both directions, and hides that either side closed. Connecting to the proxy still works, as
// does the TCP handshake with a host whose server hangs. Switching it off cuts the connections that lost something meanwhile.
func (p *Proxy) Blackhole(on bool) {
	p.hole.Store(on)
	if !on {
		p.cutWhere(func(c *conn) bool { return c.lost.Load() })
	}
}

// CutAll resets every connection and says how many there were.
func (p *Proxy) CutAll() int {
	return p.cutWhere(func(*conn) bool { return true })
}

// CutMatching resets the connections whose application_name ends in the given suffix and says how many there were.
func (p *Proxy) CutMatching(appNameSuffix string) int {
	return p.cutWhere(func(c *conn) bool {
		app := c.app.Load()
		return app != nil && strings.HasSuffix(*app, appNameSuffix)
	})
}

func (p *Proxy) cutWhere(match func(*conn) bool) int {
	p.mu.Lock()
	var cut []*conn
	for c := range p.conns {
		if match(c) {
			cut = append(cut, c)
		}
	}
	p.mu.Unlock()
	for _, c := range cut {
		c.cut()
	}
	return len(cut)
}

// Refuse makes the operating system refuse new connections (on), or accepts them again (off). Existing connections go on.
// An error means that the address could not be listened on again.
func (p *Proxy) Refuse(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil
	case on && p.listener != nil:
		err := p.listener.Close()
		p.listener = nil
		return err
	case !on && p.listener == nil:
		listener, err := net.Listen("tcp", p.addr)
		if err != nil {
			return fmt.Errorf("pgproxy: listen again: %w", err)
		}
		p.listener = listener
		p.wg.Add(1)
		go p.accept(listener)
	}
	return nil
}

// Close refuses new connections, cuts the existing ones and waits until everything is freed: at most one delay and one
// matching hook.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.cancel()
	p.CutAll()
	p.wg.Wait()
}

func (p *Proxy) accept(listener net.Listener) {
	defer p.wg.Done()
	for {
		client, err := listener.Accept()
		if err != nil {
			if p.listening(listener) {
				time.Sleep(10 * time.Millisecond) // out of descriptors, or the like: keep the address alive
				continue
			}
			return
		}
		c := newConn(p, client.(*net.TCPConn))
		if !p.add(c) {
			c.reset()
			return
		}
		go c.serve()
	}
}

func (p *Proxy) listening(listener net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listener == listener
}

// add registers a connection and takes the wait for it; false after Close.
func (p *Proxy) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.nextID++
	c.id = p.nextID
	p.conns[c] = struct{}{}
	p.wg.Add(1)
	return true
}

func (p *Proxy) remove(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) upstreamAddr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.upstream
}
