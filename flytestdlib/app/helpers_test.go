package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// patience is how long a test waits for what must come; only a broken test waits that long.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if scenario := os.Getenv(scenarioVariable); scenario != "" {
		os.Exit(runScenario(scenario))
	}
	goleak.VerifyTestMain(m)
}

// testConfig has ports of its own and deadlines that a test which meets them does not notice.
func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Address = "127.0.0.1:0"
	cfg.MetricsAddress = ""
	cfg.DrainTimeout = patience
	cfg.StopTimeout = patience
	cfg.CloseTimeout = patience
	return cfg
}

// life is an App that runs in the background of a test.
type life struct {
	*App
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
}

// begin runs a until the test ends, and waits until it listens.
func begin(t *testing.T, a *App, setup func(context.Context) error) *life {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &life{App: a, t: t, stop: stop, ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.ended <- a.Run(ctx, setup, nil)
	}()
	t.Cleanup(func() {
		stop()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("the app did not end")
		}
	})
	require.Eventually(t, func() bool { return a.Address() != "" }, patience, time.Millisecond)
	return l
}

// beginReady is begin with a setup that does nothing, done.
func beginReady(t *testing.T, a *App) *life {
	t.Helper()
	l := begin(t, a, func(context.Context) error { return nil })
	require.Eventually(t, a.started.Load, patience, time.Millisecond)
	return l
}

// end waits for the end of Run and returns its error.
func (l *life) end() error {
	l.t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(patience):
		require.Fail(l.t, "the app did not end")
		return nil
	}
}

func (l *life) url(path string) string {
	return "http://" + l.Address() + path
}

// get returns status and body; the connection is not kept.
func (l *life) get(path string) (int, string) {
	l.t.Helper()
	client := newClient(l.t, false)
	resp, err := client.Get(l.url(path))
	require.NoError(l.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(l.t, err)
	return resp.StatusCode, string(body)
}

type readiness struct {
	Status string
	Checks map[string]string
}

func (l *life) ready() (int, readiness) {
	l.t.Helper()
	status, body := l.get("/readyz")
	var r readiness
	require.NoError(l.t, json.Unmarshal([]byte(body), &r))
	return status, r
}

// newClient speaks HTTP/1.1 only or HTTP/2 without TLS only.
func newClient(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	var p http.Protocols
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: &p}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// logged collects the log of the process until the end of the test.
func logged(t *testing.T) func() string {
	t.Helper()
	out := &lockedBuffer{}
	require.NoError(t, logger.Setup(logger.DefaultConfig(), out))
	t.Cleanup(func() { require.NoError(t, logger.Setup(logger.DefaultConfig(), os.Stderr)) })
	return out.String
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const (
	watchProcedure = "/test.Service/Watch"
	askProcedure   = "/test.Service/Ask"
)

type text = wrapperspb.StringValue

// rpcs adds a watch that says "first" and then nothing until the app drains, and a unary call that is answered after release gave
// it leave.
func rpcs(a *App, release <-chan struct{}) {
	drained := make(chan struct{})
	a.OnDrain(func() { close(drained) })
	a.Handle(watchProcedure, connect.NewServerStreamHandler(watchProcedure,
		func(ctx context.Context, _ *connect.Request[text], stream *connect.ServerStream[text]) error {
			if err := stream.Send(wrapperspb.String("first")); err != nil {
				return err
			}
			select {
			case <-drained:
				return connect.NewError(connect.CodeUnavailable, errors.New("drained"))
			case <-ctx.Done():
				return ctx.Err()
			}
		}))
	a.Handle(askProcedure, connect.NewUnaryHandler(askProcedure,
		func(ctx context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
			select {
			case <-release:
				return connect.NewResponse(r.Msg), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
}

// inFlight waits until n requests are being handled.
func (l *life) inFlight(n int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.requests.total() == n }, patience, time.Millisecond)
}

func requireCode(t *testing.T, want connect.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, connect.CodeOf(err), "%v", err)
}

// takePort listens on a port until the end of the test.
func takePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l.Addr().String()
}

// takeAndFreePort returns an address that was free a moment ago.
func takeAndFreePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}
