package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// passed is what /readyz says about a check without an error.
const passed = "ok"

// checks are the named conditions of readiness.
type checks struct {
	mu   sync.Mutex
	list []check
}

type check struct {
	name string
	run  func(context.Context) error
}

func (c *checks) add(name string, run func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, check{name, run})
}

// run evaluates all checks side by side, each within the limit, and returns their error texts, or passed, by name. A check
// that ignores its context is not waited for.
func (c *checks) run(ctx context.Context, limit time.Duration) (results map[string]string, ready bool) {
	c.mu.Lock()
	list := c.list
	c.mu.Unlock()

	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s: %w", limit, context.DeadlineExceeded))
	defer cancel()
	type result struct {
		name string
		err  error
	}
	done := make(chan result, len(list))
	results = make(map[string]string, len(list))
	for _, check := range list {
		results[check.name] = ""
		go func() { done <- result{check.name, check.run(ctx)} }()
	}

	ready = true
	for range list {
		select {
		case r := <-done:
			results[r.name] = passed
			if r.err != nil {
				ready = false
				results[r.name] = r.err.Error()
			}
		case <-ctx.Done():
			for name, text := range results {
				if text == "" {
					results[name] = context.Cause(ctx).Error()
				}
			}
			return results, false
		}
	}

	return results, ready
}

// errStarting and errStopping are the app's own check at the two ends of its life.
var (
	errStarting = errors.New("the setup is not done yet")
	errStopping = errors.New("shutting down")
)

func (a *App) lifeCheck(context.Context) error {
	switch {
	case a.life.Err() != nil:
		return errStopping
	case !a.started.Load():
		return errStarting
	default:
		return nil
	}
}

// serveProbes answers /healthz and /readyz.
func (a *App) serveProbes() {
	a.checks.add("process", a.lifeCheck)
	a.probes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	a.probes.HandleFunc("GET /readyz", a.answerReady)
}

func (a *App) answerReady(w http.ResponseWriter, r *http.Request) {
	results, ready := a.checks.run(r.Context(), a.cfg.CheckTimeout)
	status, code := "ready", http.StatusOK
	if !ready {
		status, code = "not ready", http.StatusServiceUnavailable
	}
	writeJSON(w, code, map[string]any{"status": status, "checks": results})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	// The client that asked may be gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(body)
}
