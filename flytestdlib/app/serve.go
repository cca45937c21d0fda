package app

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// writeTimeout closes a connection that takes no byte at all for this long while there is something to send.
const writeTimeout = 30 * time.Second

// server is one listening port.
type server struct {
	name string
	http *http.Server
}

// listen opens a port and serves it in the background; a fault of the listener ends the life.
func (a *App) listen(ctx context.Context, name, address string, h http.Handler) (*server, net.Addr, error) {
	// Keep-alive by TCP finds dead HTTP/1.1 clients as the pings below find dead HTTP/2 clients.
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: a.cfg.KeepAlive, Interval: a.cfg.KeepAlive, Count: 2}}
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("server.%s: %w", name, err)
	}

	s := &server{name: name, http: a.newServer(h)}
	go func() {
		// Serve always returns an error; endLife is without effect when a shutdown brought it about.
		a.endLife(fmt.Errorf("serve %s: %w", l.Addr(), s.http.Serve(l)))
	}()

	return s, l.Addr(), nil
}

func (a *App) newServer(h http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)

	return &http.Server{
		Handler:           bodyWithin(a.cfg.ReadBodyTimeout, h),
		Protocols:         &protocols,
		MaxHeaderBytes:    a.cfg.MaxHeaderBytes,
		ReadHeaderTimeout: a.cfg.ReadHeaderTimeout,
		IdleTimeout:       a.cfg.IdleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: a.cfg.MaxStreamsPerConnection,
			SendPingTimeout:      a.cfg.KeepAlive,
			PingTimeout:          a.cfg.KeepAlive,
			WriteByteTimeout:     writeTimeout,
		},
		BaseContext: func(net.Listener) context.Context { return a.requestsCut },
		ErrorLog:    log.New(serverLog{}, "", 0),
	}
}

// publicHandler is what clients reach: until the setup is done, nothing but the probes and, on a shared port, the metrics.
func (a *App) publicHandler() http.Handler {
	early := []*http.ServeMux{a.probes}
	if a.sharedPort() {
		early = append(early, a.internal)
	}
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.started.Load() {
			// The body is how Connect spells an error; gRPC clients go by the status.
			w.Header().Set("Retry-After", "1")
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"code": "unavailable", "message": "the service is starting"})
			return
		}
		a.public.ServeHTTP(w, r)
	})

	return a.counted(firstMatch(early, service))
}

// internalHandler is what operators reach on a port of its own; the probes are there too, since a probe may reach only this one.
func (a *App) internalHandler() http.Handler {
	return firstMatch([]*http.ServeMux{a.probes}, a.internal)
}

func (a *App) sharedPort() bool {
	return a.cfg.MetricsAddress == a.cfg.Address
}

// firstMatch serves a request by the first mux that has a pattern for it, else by last.
func firstMatch(muxes []*http.ServeMux, last http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, mux := range muxes {
			if _, pattern := mux.Handler(r); pattern != "" {
				mux.ServeHTTP(w, r)
				return
			}
		}
		last.ServeHTTP(w, r)
	})
}

// counted keeps the tally of requests, by path, that a shutdown waits for.
func (a *App) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		a.requests.begin(path)
		defer a.requests.end(path)
		next.ServeHTTP(w, r)
	})
}

// serverLog takes what net/http has to say: faults of single connections, mostly.
type serverLog struct{}

func (serverLog) Write(line []byte) (int, error) {
	logger.Warnf(context.Background(), "%s", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
