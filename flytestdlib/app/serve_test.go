package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestBothHTTPVersionsAreAnswered(t *testing.T) {
	a := New(testConfig())
	open := make(chan struct{})
	close(open)
	rpcs(a, open)
	l := beginReady(t, a)

	for _, version := range []int{1, 2} {
		client := newClient(t, version == 2)
		resp, err := client.Get(l.url("/healthz"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, version, resp.ProtoMajor)
		assert.Equal(t, http.StatusOK, resp.StatusCode)

		ask := connect.NewClient[text, text](client, l.url(askProcedure))
		answer, err := ask.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("hello")))
		require.NoError(t, err)
		assert.Equal(t, "hello", answer.Msg.Value)
	}

	grpc := connect.NewClient[text, text](newClient(t, true), l.url(askProcedure), connect.WithGRPC())
	_, err := grpc.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("hello")))
	require.NoError(t, err)
}

func TestClientsWaitForTheSetupAndProbesDoNot(t *testing.T) {
	for _, shared := range []bool{false, true} {
		cfg := testConfig()
		if shared {
			cfg.MetricsAddress = cfg.Address
		}
		a := New(cfg)
		setUp := make(chan struct{})
		a.HandleInternal("GET /metrics", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		open := make(chan struct{})
		close(open)
		l := begin(t, a, func(ctx context.Context) error {
			select {
			case <-setUp:
				rpcs(a, open)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})

		status, _ := l.get("/healthz")
		assert.Equal(t, http.StatusOK, status)
		status, body := l.ready()
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Equal(t, readiness{"not ready", map[string]string{"process": "the setup is not done yet"}}, body)
		status, _ = l.get("/metrics")
		if shared {
			assert.Equal(t, http.StatusOK, status)
		} else {
			assert.Equal(t, http.StatusServiceUnavailable, status, "metrics are not for clients")
		}
		for _, opts := range [][]connect.ClientOption{nil, {connect.WithGRPC()}} {
			ask := connect.NewClient[text, text](newClient(t, true), l.url(askProcedure), opts...)
			_, err := ask.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("hello")))
			requireCode(t, connect.CodeUnavailable, err)
		}

		close(setUp)
		require.Eventually(t, func() bool { status, _ := l.ready(); return status == http.StatusOK }, patience, time.Millisecond)
		ask := connect.NewClient[text, text](newClient(t, true), l.url(askProcedure))
		_, err := ask.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("hello")))
		require.NoError(t, err)
		status, _ = l.get("/nothing")
		assert.Equal(t, http.StatusNotFound, status)
	}
}

func TestMetricsHaveAPortOfTheirOwn(t *testing.T) {
	cfg := testConfig()
	cfg.MetricsAddress = takeAndFreePort(t)
	a := New(cfg)
	a.HandleInternal("GET /metrics", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	l := beginReady(t, a)

	for path, want := range map[string]int{"/metrics": http.StatusOK, "/healthz": http.StatusOK, "/readyz": http.StatusOK, "/": http.StatusNotFound} {
		resp, err := newClient(t, false).Get("http://" + cfg.MetricsAddress + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, want, resp.StatusCode, path)
	}
	status, _ := l.get("/metrics")
	assert.Equal(t, http.StatusNotFound, status)
}

func TestReadinessNamesEachFailingCheck(t *testing.T) {
	cfg := testConfig()
	cfg.CheckTimeout = 50 * time.Millisecond
	a := New(cfg)
	release := make(chan struct{})
	defer close(release)
	a.Check("fine", func(context.Context) error { return nil })
	a.Check("database", func(context.Context) error { return errors.New("connection refused") })
	a.Check("deaf", func(context.Context) error { <-release; return nil })
	l := beginReady(t, a)

	status, body := l.ready()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "not ready", body.Status)
	assert.Equal(t, "connection refused", body.Checks["database"])
	assert.Equal(t, "no answer within 50ms: context deadline exceeded", body.Checks["deaf"])
	assert.Contains(t, body.Checks, "fine")
	status, _ = l.get("/healthz")
	assert.Equal(t, http.StatusOK, status, "a failing check is no reason to restart")
}

func TestAHeaderBeyondTheLimitIsRefused(t *testing.T) {
	cfg := testConfig()
	cfg.MaxHeaderBytes = 4096
	l := beginReady(t, New(cfg))

	r, err := http.NewRequest(http.MethodGet, l.url("/healthz"), nil)
	require.NoError(t, err)
	r.Header.Set("X-Long", strings.Repeat("x", 20_000))
	resp, err := newClient(t, false).Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
}

func TestAPortThatIsTakenIsNamed(t *testing.T) {
	for _, field := range []string{"address", "metricsAddress"} {
		cfg := testConfig()
		taken := takePort(t)
		if field == "address" {
			cfg.Address = taken
		} else {
			cfg.MetricsAddress = taken
		}
		err := New(cfg).Run(context.Background(), func(context.Context) error { return nil }, nil)
		require.ErrorContains(t, err, "server."+field+": listen tcp "+taken)
	}
}

func TestDefaultsAreValidAndBoundsAreNamed(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())

	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Address = "here" }, `address: "here" is not host:port`},
		{func(c *Config) { c.MetricsAddress = "there" }, `metricsAddress: "there" is neither host:port nor empty`},
		{func(c *Config) { c.MaxHeaderBytes = 1 }, "maxHeaderBytes: 1 is below 4096"},
		{func(c *Config) { c.MaxStreamsPerConnection = 0 }, "maxStreamsPerConnection: 0 is below 1"},
		{func(c *Config) { c.DrainTimeout = 0 }, "drainTimeout: 0s is not above 0"},
		{func(c *Config) { c.KeepAlive = -time.Second }, "keepAlive: -1s is not above 0"},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		require.EqualError(t, cfg.Validate(), c.want)
	}
}
