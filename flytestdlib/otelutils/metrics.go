package otelutils

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// scrapeTimeout bounds one answer of the metrics handler: a gauge callback that hangs must not pile up scrapes.
const scrapeTimeout = 10 * time.Second

var (
	mu       sync.RWMutex
	services = map[string]*Metrics{}
)

// Metrics is the meter provider of one service together with the registry that Prometheus reads. All its methods may be
// called from any goroutine.
type Metrics struct {
	service  string
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider
}

// RegisterMeterProvider makes the meter provider that [GetMeterProvider] returns for this service from now on. The registry
// behind it is its own, and holds the Go runtime's and the process' figures under the names that Prometheus' own Go client
// gives them (go_goroutines, process_resident_memory_bytes, …), since ready-made dashboards know those.
//
// A second registration of a name that was not shut down is an error. Faults inside OpenTelemetry (a conflicting instrument,
// say) go to the log of the process as warnings.
func RegisterMeterProvider(service string) (*Metrics, error) {
	mu.Lock()
	defer mu.Unlock()
	if _, taken := services[service]; taken {
		return nil, fmt.Errorf("meter provider of %q is registered already", service)
	}

	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register runtime metrics of %q: %w", service, err)
		}
	}
	// The scope labels repeat the name of the instrumenting package on each series and tell an operator nothing.
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("make prometheus exporter of %q: %w", service, err)
	}

	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Warnf(context.Background(), "opentelemetry: %v", err)
	}))
	m := &Metrics{
		service:  service,
		registry: registry,
		provider: sdkmetric.NewMeterProvider(
			sdkmetric.WithReader(reader),
			sdkmetric.WithResource(resource.NewSchemaless(attribute.String("service.name", service))),
			sdkmetric.WithView(durationBuckets, rpcServerDuration),
		),
	}
	services[service] = m

	return m, nil
}

// GetMeterProvider returns the meter provider that was registered for a service, or one that does nothing.
func GetMeterProvider(service string) metric.MeterProvider {
	mu.RLock()
	defer mu.RUnlock()
	if m, ok := services[service]; ok {
		return m.provider
	}

	return noop.NewMeterProvider()
}

// Handler answers a scrape in Prometheus' text format. What can be collected is sent even when a part fails; the failure is
// logged.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:      scrapeLog{},
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      m.registry,
		Timeout:       scrapeTimeout,
	})
}

// RegisterPool adds the statistics of a connection pool, as go_sql_open_connections{db_name=name} and so on: those that Prometheus'
// own Go client collects, in seconds where they are times. Each name can be given once.
func (m *Metrics) RegisterPool(name string, pool *sql.DB) error {
	if err := m.registry.Register(collectors.NewDBStatsCollector(pool, name)); err != nil {
		return fmt.Errorf("register metrics of connection pool %q: %w", name, err)
	}

	return nil
}

// Shutdown ends the provider: its instruments stay usable and record nothing, and the service's name is free again.
func (m *Metrics) Shutdown(ctx context.Context) error {
	mu.Lock()
	if services[m.service] == m {
		delete(services, m.service)
	}
	mu.Unlock()

	if err := m.provider.Shutdown(ctx); err != nil && !errors.Is(err, sdkmetric.ErrReaderShutdown) {
		return fmt.Errorf("shut down meter provider of %q: %w", m.service, err)
	}

	return nil
}

type scrapeLog struct{}

func (scrapeLog) Println(v ...any) {
	logger.Warnf(context.Background(), "metrics: %s", fmt.Sprint(v...))
}
