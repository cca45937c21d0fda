package impl

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// namingProvider does nothing and knows which instruments it was asked for.
type namingProvider struct {
	noop.MeterProvider
	meter *namingMeter
}

func (p namingProvider) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter }

type namingMeter struct {
	noop.Meter
	mu    sync.Mutex
	names map[string]bool
}

func (m *namingMeter) note(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[name] = true
}

func (m *namingMeter) Float64Histogram(name string, options ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.note(name)
	return m.Meter.Float64Histogram(name, options...)
}

func (m *namingMeter) Int64ObservableGauge(name string, options ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	m.note(name)
	return m.Meter.Int64ObservableGauge(name, options...)
}

func TestMeasureNotify_NamesTheServicesMetrics(t *testing.T) {
	provider := namingProvider{meter: &namingMeter{names: map[string]bool{}}}
	backlog, err := pgnotify.NewBacklog(pgnotify.BacklogConfig{}, map[string]pgnotify.Subscribers{
		notifyChannelRuns: func(func(chan string)) {},
	})
	require.NoError(t, err)
	listener, err := pgnotify.NewListener(pgnotify.ListenerConfig{DSN: "host=localhost port=1 connect_timeout=1"}, backlog)
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close(t.Context())) }()

	measureNotify(provider, pgnotify.Measured{Pump: newNotifyPump()})
	measureNotify(provider, pgnotify.Measured{Listener: listener})
	for _, name := range []string{"runs.notify.pending", "runs.notify.exec.duration", "runs.notify.delay", "runs.listen.connected", "runs.listen.lag"} {
		assert.True(t, provider.meter.names[name], name)
	}
}
