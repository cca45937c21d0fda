package test

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
	"github.com/flyteorg/flyte/v2/runs"
	"github.com/flyteorg/flyte/v2/runs/config"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// deadline is generous: it ends a test that hangs, it measures nothing.
const deadline = time.Minute

// service is a running service and what stands behind it.
type service struct {
	url   string
	proxy *pgproxy.Proxy // between the service and its database
}

// startService runs a service on a database of the test's own, and stops it at the end of the test, when no stream and no
// goroutine of it may be left.
func startService(t *testing.T, mode impl.NotifyMode, network pgproxy.Options) *service {
	t.Helper()
	return startServiceAt(t, "127.0.0.1:0", mode, network)
}

// startServiceAt is startService at an address of the test's choice.
func startServiceAt(t *testing.T, address string, mode impl.NotifyMode, network pgproxy.Options) *service {
	t.Helper()
	db := dbtest.Config(t)
	proxy := startProxy(t, db, network)

	cfg := config.Default()
	cfg.Server.Address, cfg.Server.MetricsAddress = address, address // one port for both
	cfg.Database.DbConfig = behind(t, proxy, db)
	cfg.Runs.Notify.Mode = mode

	ctx, cancel := context.WithCancel(context.Background())
	out := &announcement{found: make(chan string, 1)}
	ended := make(chan error, 1)
	go func() { ended <- runs.Run(ctx, cfg, out) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err, "the service's end")
		case <-time.After(deadline):
			t.Error("the service did not end")
		}
	})
	select {
	case url := <-out.found:
		return &service{url: url, proxy: proxy}
	case err := <-ended:
		ended <- nil
		require.NoError(t, err)
	case <-time.After(deadline):
		require.Fail(t, "the service did not become ready")
	}
	return nil
}

func startProxy(t *testing.T, db database.DbConfig, network pgproxy.Options) *pgproxy.Proxy {
	t.Helper()
	proxy, err := pgproxy.Start(net.JoinHostPort(db.Postgres.Host, strconv.Itoa(db.Postgres.Port)), network)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return proxy
}

// behind is the same database, reached through the proxy.
func behind(t *testing.T, proxy *pgproxy.Proxy, db database.DbConfig) database.DbConfig {
	t.Helper()
	host, port, err := net.SplitHostPort(proxy.Addr())
	require.NoError(t, err)
	db.Postgres.Host = host
	db.Postgres.Port, err = strconv.Atoi(port)
	require.NoError(t, err)
	return db
}

// announcement catches the address in what the service says when it is ready.
type announcement struct {
	mu    sync.Mutex
	text  []byte
	found chan string
}

var rpcAddress = regexp.MustCompile(`RPCs +(http://\S+)`)

func (a *announcement) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := rpcAddress.Match(a.text)
	a.text = append(a.text, p...)
	if m := rpcAddress.FindSubmatch(a.text); m != nil && !before {
		a.found <- string(m[1])
	}
	return len(p), nil
}

// client is one client process: a connection of its own.
type client struct {
	workflowconnect.RunServiceClient
	internal workflowconnect.InternalRunServiceClient
	events   workflowconnect.EventsProxyServiceClient
}

func (s *service) client(t *testing.T) client {
	t.Helper()
	return s.clientWith(t, &http.HTTP2Config{})
}

func (s *service) clientWith(t *testing.T, http2 *http.HTTP2Config) client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, HTTP2: http2}
	t.Cleanup(transport.CloseIdleConnections)
	h := &http.Client{Transport: transport}
	return client{
		RunServiceClient: workflowconnect.NewRunServiceClient(h, s.url),
		internal:         workflowconnect.NewInternalRunServiceClient(h, s.url),
		events:           workflowconnect.NewEventsProxyServiceClient(h, s.url),
	}
}
