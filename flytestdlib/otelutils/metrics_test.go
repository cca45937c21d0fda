package otelutils

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/emptypb"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func register(t *testing.T, service string) *Metrics {
	t.Helper()
	m, err := RegisterMeterProvider(service)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Shutdown(context.Background())) })
	return m
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestInstrumentsComeOutInPrometheusSpelling(t *testing.T) {
	m := register(t, t.Name())
	meter := GetMeterProvider(t.Name()).Meter("test")
	ctx := context.Background()

	keys, err := meter.Int64Counter("runs.notify.keys")
	require.NoError(t, err)
	keys.Add(ctx, 3)
	duration, err := meter.Float64Histogram("runs.notify.exec.duration", metric.WithUnit("s"))
	require.NoError(t, err)
	duration.Record(ctx, 0.00015)
	duration.Record(ctx, 25)
	size, err := meter.Int64Histogram("runs.notify.batch.size", metric.WithExplicitBucketBoundaries(1, 1000))
	require.NoError(t, err)
	size.Record(ctx, 500)
	age, err := meter.Float64Gauge("runs.notify.pending.oldest_age", metric.WithUnit("s"))
	require.NoError(t, err)
	age.Record(ctx, 1.5)

	text := scrape(t, m)
	for _, line := range []string{
		"# TYPE runs_notify_keys_total counter",
		"runs_notify_keys_total 3",
		`runs_notify_exec_duration_seconds_bucket{le="0.0001"} 0`,
		`runs_notify_exec_duration_seconds_bucket{le="0.0002"} 1`,
		`runs_notify_exec_duration_seconds_bucket{le="20"} 1`,
		`runs_notify_exec_duration_seconds_bucket{le="30"} 2`,
		`runs_notify_batch_size_bucket{le="1"} 0`,
		`runs_notify_batch_size_bucket{le="1000"} 1`,
		"runs_notify_pending_oldest_age_seconds 1.5",
		`target_info{service_name="` + t.Name() + `"} 1`,
	} {
		assert.Contains(t, text, line+"\n")
	}
	assert.Contains(t, text, "\ngo_goroutines ")
	assert.Contains(t, text, "\nprocess_cpu_seconds_total ")
}

func TestRPCDurationKeepsItsEstablishedName(t *testing.T) {
	m := register(t, t.Name())
	interceptor, err := otelconnect.NewInterceptor(otelconnect.WithMeterProvider(GetMeterProvider(t.Name())), otelconnect.WithoutTracing())
	require.NoError(t, err)

	const procedure = "/test.Service/Do"
	handler := connect.NewUnaryHandler(procedure, func(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
		return nil, connect.NewError(connect.CodeNotFound, nil)
	}, connect.WithInterceptors(interceptor))
	r := httptest.NewRequest(http.MethodPost, procedure, strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(httptest.NewRecorder(), r)

	text := scrape(t, m)
	assert.Contains(t, text, "# TYPE rpc_server_duration_seconds histogram\n")
	assert.Contains(t, text, `rpc_server_duration_seconds_count{error_type="NOT_FOUND",rpc_method="test.Service/Do",rpc_response_status_code="NOT_FOUND",rpc_system_name=`)
	assert.Contains(t, text, `le="0.0001"`)
	assert.NotContains(t, text, "rpc_server_call_duration")
}

func TestPoolStatistics(t *testing.T) {
	m := register(t, t.Name())
	pool := sql.OpenDB(nowhere{})
	defer func() { require.NoError(t, pool.Close()) }()
	pool.SetMaxOpenConns(7)
	require.NoError(t, m.RegisterPool("runs", pool))
	require.ErrorContains(t, m.RegisterPool("runs", pool), `connection pool "runs"`)

	text := scrape(t, m)
	assert.Contains(t, text, `go_sql_max_open_connections{db_name="runs"} 7`+"\n")
	assert.Contains(t, text, `go_sql_wait_duration_seconds_total{db_name="runs"} 0`+"\n")
}

// nowhere is a database that cannot be connected to.
type nowhere struct{}

func (nowhere) Connect(context.Context) (driver.Conn, error) { return nil, errors.New("nowhere") }
func (nowhere) Driver() driver.Driver                        { return nil }

func TestAnUnregisteredServiceMeasuresNothing(t *testing.T) {
	counter, err := GetMeterProvider("nobody").Meter("test").Int64Counter("x")
	require.NoError(t, err)
	counter.Add(context.Background(), 1)
}

func TestANameIsRegisteredOnceUntilItIsShutDown(t *testing.T) {
	first := register(t, t.Name())
	_, err := RegisterMeterProvider(t.Name())
	require.ErrorContains(t, err, "registered already")

	require.NoError(t, first.Shutdown(context.Background()))
	require.NoError(t, first.Shutdown(context.Background()), "a second shutdown is harmless")
	second := register(t, t.Name())
	require.NoError(t, first.Shutdown(context.Background()))

	counter, err := GetMeterProvider(t.Name()).Meter("test").Int64Counter("x")
	require.NoError(t, err)
	counter.Add(context.Background(), 1)
	assert.Contains(t, scrape(t, second), "x_total 1\n")
}
