package pgnotify

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// scope is the name of this package's meter.
const scope = "github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"

// Measured is what Measure looks at. Fields that are nil are not measured.
type Measured struct {
	Pump     *Pump
	Listener *Listener
	// Pool is asked, once a collection, how full the server's queue of notifications is. Any connection to that server will do.
	Pool *sql.DB
}

// Measure registers the instruments below with the provider, under names that begin with prefix: a service's own name and a dot, since
// this package does not know whose notifications it sends ("runs." makes runs.notify.pending). It is called once for each pump and listener.
//
//	notify.pending{channel}                    gauge      payloads that wait or are in flight
//	notify.pending.oldest_age{channel}      s  gauge      since the first of them was added
//	notify.keys{channel,outcome}               counter    payloads; added = coalesced + delivered + rejected + notify.pending, at every collection
//	notify.batch.size{channel}                 histogram  payloads in a statement
//	notify.exec.duration{channel,outcome}   s  histogram  of one statement; outcome is ok or a Reason
//	notify.delay{channel}                   s  histogram  from added to delivered, of up to delaySamples payloads of a batch
//	notify.reconnects{channel,reason}          counter    attempts to send that failed: each gives its connection up
//	notify.queue_usage                      1  gauge      share of the server's notification queue in use
//	listen.connected, listen.ready             gauge      0 or 1
//	listen.received                            counter    notifications
//	listen.reconnects{reason}                  counter    connections that were lost or could not be made
//	listen.catchups{reason}                    counter    completed; reason is connect, interval, lost or subscriber
//	listen.catchup.failures                    counter    attempts to catch up that failed
//	listen.catchup.keys{outcome}               counter    changes found: announced, or known to have been heard of
//	listen.lag                              s  histogram  from the sender's statement to here, by the server's clock
//	listen.backlog                             gauge      payloads that wait to be handed on
//	listen.backlog.size                     By gauge      memory of what is kept for subscribers
//	listen.subscribers{state}                  gauge      current or behind
//	listen.overflow{kind}                      counter    lost: payloads dropped before anybody got them; subscriber: times that one missed what was dropped
//
// Counts and gauges are read from Stats when metrics are collected and cost nothing in between. The histograms cost the goroutines that
// send and listen less than a microsecond a statement (see BenchmarkMetrics).
//
// The error says which instruments could not be made; those are not measured, everything else is, and stop is never nil. A caller
// logs it and goes on. stop ends the measuring; it is to be called before Pool is closed.
func Measure(provider metric.MeterProvider, prefix string, m Measured) (stop func(), err error) {
	r := &registrar{meter: provider.Meter(scope), prefix: prefix}
	var stops []func()
	if m.Pump != nil {
		stops = append(stops, r.measurePump(m.Pump))
	}
	if m.Listener != nil {
		stops = append(stops, r.measureListener(m.Listener))
	}
	if m.Pool != nil {
		r.measureQueue(m.Pool)
	}
	for _, registration := range r.registrations {
		stops = append(stops, func() { _ = registration.Unregister() }) // an error can only say that the provider has ended
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}, errors.Join(r.errs...)
}

// registrar makes instruments and collects what went wrong. In place of one that cannot be made it gives one that does nothing.
type registrar struct {
	meter         metric.Meter
	prefix        string
	registrations []metric.Registration
	errs          []error
}

func (r *registrar) failed(name string, err error) bool {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("metric %s%s: %w", r.prefix, name, err))
	}
	return err != nil
}

func (r *registrar) counter(name, unit, description string) metric.Int64ObservableCounter {
	i, err := r.meter.Int64ObservableCounter(r.prefix+name, metric.WithUnit(unit), metric.WithDescription(description))
	if r.failed(name, err) {
		return noop.Int64ObservableCounter{}
	}
	return i
}

func (r *registrar) gauge(name, unit, description string) metric.Int64ObservableGauge {
	i, err := r.meter.Int64ObservableGauge(r.prefix+name, metric.WithUnit(unit), metric.WithDescription(description))
	if r.failed(name, err) {
		return noop.Int64ObservableGauge{}
	}
	return i
}

func (r *registrar) floatGauge(name, unit, description string) metric.Float64ObservableGauge {
	i, err := r.meter.Float64ObservableGauge(r.prefix+name, metric.WithUnit(unit), metric.WithDescription(description))
	if r.failed(name, err) {
		return noop.Float64ObservableGauge{}
	}
	return i
}

// secondsBuckets resolve 0.1 ms to 30 s.
var secondsBuckets = []float64{
	0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30,
}

func (r *registrar) seconds(name, description string) metric.Float64Histogram {
	i, err := r.meter.Float64Histogram(r.prefix+name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(secondsBuckets...))
	if r.failed(name, err) {
		return noop.Float64Histogram{}
	}
	return i
}

func (r *registrar) sizes(name, unit, description string) metric.Int64Histogram {
	bounds := make([]float64, len(widths))
	for i, width := range widths {
		bounds[i] = float64(width)
	}
	i, err := r.meter.Int64Histogram(r.prefix+name, metric.WithUnit(unit), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
	if r.failed(name, err) {
		return noop.Int64Histogram{}
	}
	return i
}

// observe has callback called at every collection.
func (r *registrar) observe(what string, callback metric.Callback, instruments ...metric.Observable) {
	instruments = withoutNoop(instruments)
	registration, err := r.meter.RegisterCallback(callback, instruments...)
	if !r.failed(what, err) {
		r.registrations = append(r.registrations, registration)
	}
}

// withoutNoop leaves out what a meter would not know as its own.
func withoutNoop(instruments []metric.Observable) (own []metric.Observable) {
	for _, i := range instruments {
		switch i.(type) {
		case noop.Int64ObservableCounter, noop.Int64ObservableGauge, noop.Float64ObservableGauge:
		default:
			own = append(own, i)
		}
	}
	return own
}

// labels are attributes that are put together once, since that costs more than the measurement.
func labels(pairs ...string) metric.MeasurementOption {
	attributes := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		attributes = append(attributes, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

// reasons are all the values that the label reason has.
var reasons = []Reason{
	ReasonPayload, ReasonShutdown, ReasonReadOnly, ReasonCapacity, ReasonTimeout, ReasonConnection, ReasonCanceled, ReasonOther,
}

// queueTimeout bounds the question how full the server's queue is: a collection must not wait for a server that is away.
const queueTimeout = time.Second

// measureQueue asks at each collection. Without an answer the gauge has no value.
func (r *registrar) measureQueue(pool *sql.DB) {
	usage := r.floatGauge("notify.queue_usage", "1", "Share of the server's notification queue that its slowest listener has not read.")
	r.observe("notify.queue_usage", func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, queueTimeout)
		defer cancel()
		var share float64
		if err := pool.QueryRowContext(ctx, "SELECT pg_notification_queue_usage()").Scan(&share); err == nil {
			o.ObserveFloat64(usage, share)
		}
		return nil
	}, usage)
}
