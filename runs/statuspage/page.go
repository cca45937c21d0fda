package statuspage

import (
	"embed"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

//go:embed assets
var assets embed.FS

const (
	// maxViewers bounds the event streams.
	maxViewers = 100
	// writeTimeout ends the stream of a browser that takes nothing.
	writeTimeout = 10 * time.Second
)

// policy is what a browser may do with the page: load from where it came from, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page serves the page and its events. Its methods may be called from any goroutine.
type Page struct {
	board     *board
	drainOnce sync.Once
	drained   chan struct{}
}

// New returns the page over repo. notify is asked for the state of pump and listener for each frame; it must return at once.
func New(repo interfaces.ActionRepo, notify func() interfaces.NotifyStatus) *Page {
	return &Page{board: newBoard(repo, notify), drained: make(chan struct{})}
}

// Handlers returns what serves the page, by the pattern to register it under.
func (p *Page) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /{$}":              asset("index.html", "text/html; charset=utf-8"),
		"GET /status/page.js":   asset("page.js", "text/javascript; charset=utf-8"),
		"GET /status/charts.js": asset("charts.js", "text/javascript; charset=utf-8"),
		"GET /status/style.css": asset("style.css", "text/css; charset=utf-8"),
		"GET /status/icon.svg":  asset("icon.svg", "image/svg+xml"),
		"GET /status/events":    http.HandlerFunc(p.events),
	}
}

// Drain ends the event streams, present and future, and what runs for them. Browsers come back by themselves, to whoever then answers.
func (p *Page) Drain() { p.drainOnce.Do(func() { close(p.drained) }) }

// asset serves an embedded file.
func asset(name, contentType string) http.Handler {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(fmt.Sprintf("statuspage: %v", err)) // fixed when this is compiled
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // a newer service has newer files
		// The browser that asked may be gone; there is nobody else to tell.
		_, _ = w.Write(content)
	})
}

// events sends a frame whenever there is one, as server-sent events, until the browser leaves or the service drains.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	frames, leave, err := p.board.join()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that gathers would show a picture that stands still
	h.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	send := func(text string) bool {
		// Where it cannot be set, as on a recorder in a test, nothing blocks either.
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := fmt.Fprint(w, text)
		err = errors.Join(err, control.Flush())
		if err != nil {
			logger.Debugf(r.Context(), "status page: a browser is gone: %v", err)
		}
		return err == nil
	}
	if !send("retry: 1000\n\n") {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-p.drained:
			return
		case frame := <-frames:
			if !send("data: " + string(frame) + "\n\n") {
				return
			}
		}
	}
}
