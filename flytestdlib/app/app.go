package app

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
)

// App is one process' life. Its methods may be called from any goroutine, before and during Run; what a setup function adds
// (handlers, checks, workers, closers) is taken down with the rest even when the setup fails half way.
type App struct {
	cfg Config

	public   *http.ServeMux
	internal *http.ServeMux
	probes   *http.ServeMux
	requests tally
	checks   checks
	workers  workers
	closers  closers
	address  atomic.Value

	// life ends, with the cause, when the process is to go down.
	life    context.Context
	endLife context.CancelCauseFunc
	// draining ends when streams are to end; requestsCut when requests that did not finish in time are.
	draining    context.Context
	startDrain  context.CancelFunc
	requestsCut context.Context
	cutRequests context.CancelFunc
	started     atomic.Bool
}

// New prepares a life; nothing runs before [App.Run]. cfg must be valid.
func New(cfg Config) *App {
	a := &App{cfg: cfg, public: http.NewServeMux(), internal: http.NewServeMux(), probes: http.NewServeMux()}
	a.life, a.endLife = context.WithCancelCause(context.Background())
	a.draining, a.startDrain = context.WithCancel(context.Background())
	a.requestsCut, a.cutRequests = context.WithCancel(context.Background())
	a.workers.ctx, a.workers.stop = context.WithCancel(context.Background())
	a.serveProbes()

	return a
}

// Handle serves a pattern of http.ServeMux to clients, from the end of the setup on; before that they get 503.
func (a *App) Handle(pattern string, h http.Handler) {
	a.public.Handle(pattern, h)
}

// HandleInternal serves a pattern to operators, on the metrics address, from the start on.
func (a *App) HandleInternal(pattern string, h http.Handler) {
	a.internal.Handle(pattern, h)
}

// Address is the host:port at which clients are served, with the real port where 0 was configured; empty before Run listens.
func (a *App) Address() string {
	address, _ := a.address.Load().(string)
	return address
}

// Check adds a condition of readiness. It is evaluated at each /readyz, within Config.CheckTimeout; its error's text is shown
// there under the name.
func (a *App) Check(name string, check func(context.Context) error) {
	a.checks.add(name, check)
}

// Go runs a worker until the process has drained; then its context ends and it has Config.StopTimeout to return. An error
// that it returns before that takes the process down.
func (a *App) Go(name string, work func(context.Context) error) {
	a.workers.start(name, work, a.endLife)
}

// OnDrain has f called, in a goroutine of its own, when the process drains. It tells streams to end: those that stay quiet for
// hours would otherwise last until the drain timeout cuts them off.
func (a *App) OnDrain(f func()) {
	context.AfterFunc(a.draining, f)
}

// OnClose has something closed at the end, when no request and no worker uses it any more, the last opened first, each within
// Config.CloseTimeout.
func (a *App) OnClose(name string, closeIt func(context.Context) error) {
	a.closers.add(name, closeIt)
}

// closers is a stack of what has to be closed.
type closers struct {
	mu    sync.Mutex
	stack []closer
}

type closer struct {
	name    string
	closeIt func(context.Context) error
}

func (c *closers) add(name string, closeIt func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stack = append(c.stack, closer{name, closeIt})
}

// pop takes the one that was added last.
func (c *closers) pop() (closer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.stack) == 0 {
		return closer{}, false
	}
	last := c.stack[len(c.stack)-1]
	c.stack = c.stack[:len(c.stack)-1]
	return last, true
}
