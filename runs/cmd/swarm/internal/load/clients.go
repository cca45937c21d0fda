package load

import (
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
)

const (
	callsPerConnection   = 16 // workers that share one HTTP/2 connection
	streamsPerConnection = 64 // watch streams that share one; below the usual server limit of 100
	maxConnections       = 64
)

// clients are the connections to the service. Calls and streams have connections of their own, so that a burst on the streams does
// not delay the calls that are measured.
type clients struct {
	calls   []callClient
	streams []workflowconnect.RunServiceClient
	all     []*http.Transport
}

type callClient struct {
	internal workflowconnect.InternalRunServiceClient
	events   workflowconnect.EventsProxyServiceClient
	runs     workflowconnect.RunServiceClient
}

func newClients(cfg Config) *clients {
	// Compression costs both sides CPU and is of no use within a data centre: don't ask for it.
	options := []connect.ClientOption{connect.WithAcceptCompression("gzip", nil, nil)}
	switch cfg.Protocol {
	case ProtocolGRPC:
		options = append(options, connect.WithGRPC())
	case ProtocolGRPCWeb:
		options = append(options, connect.WithGRPCWeb())
	}
	c := &clients{}
	for range connections(cfg.Concurrency, callsPerConnection) {
		http := c.connection()
		c.calls = append(c.calls, callClient{
			internal: workflowconnect.NewInternalRunServiceClient(http, cfg.Endpoint, options...),
			events:   workflowconnect.NewEventsProxyServiceClient(http, cfg.Endpoint, options...),
			runs:     workflowconnect.NewRunServiceClient(http, cfg.Endpoint, options...),
		})
	}
	for range connections(1+min(cfg.Runs, cfg.Parallel)+cfg.ActionWatchers, streamsPerConnection) {
		c.streams = append(c.streams, workflowconnect.NewRunServiceClient(c.connection(), cfg.Endpoint, options...))
	}
	return c
}

func connections(users, perConnection int) int {
	return min((users+perConnection-1)/perConnection, maxConnections)
}

// connection is a client with one HTTP/2 connection, or more only where the server allows too few streams on it.
func (c *clients) connection() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Proxy:     http.ProxyFromEnvironment,
		Protocols: protocols,
		HTTP2:     &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	c.all = append(c.all, transport)
	return &http.Client{Transport: transport}
}

func (c *clients) call(i int) callClient { return c.calls[i%len(c.calls)] }

func (c *clients) stream(i int) workflowconnect.RunServiceClient { return c.streams[i%len(c.streams)] }

func (c *clients) close() {
	for _, transport := range c.all {
		transport.CloseIdleConnections()
	}
}
