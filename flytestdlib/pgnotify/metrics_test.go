package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// meters is a provider whose metrics a test can collect.
type meters struct {
	t        testing.TB
	reader   *sdkmetric.ManualReader
	provider *sdkmetric.MeterProvider
}

func newMeters(t testing.TB) *meters {
	reader := sdkmetric.NewManualReader()
	return &meters{t: t, reader: reader, provider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}
}

// measure measures until the end of the test.
func (m *meters) measure(what Measured) {
	stop, err := Measure(m.provider, "svc.", what)
	require.NoError(m.t, err)
	m.t.Cleanup(stop)
}

// collect returns the values of one instant by "name{label=value,…}"; of a histogram its count and, as name_sum, its sum.
func (m *meters) collect() map[string]float64 {
	m.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(m.t, m.reader.Collect(context.Background(), &all))
	values := map[string]float64{}
	for _, s := range all.ScopeMetrics {
		for _, i := range s.Metrics {
			switch data := i.Data.(type) {
			case metricdata.Sum[int64]:
				require.True(m.t, data.IsMonotonic, i.Name)
				for _, p := range data.DataPoints {
					values[series(i.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[series(i.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[series(i.Name, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					values[series(i.Name, p.Attributes)] = float64(p.Count)
					values[series(i.Name+"_sum", p.Attributes)] = float64(p.Sum)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					require.Equal(m.t, secondsBuckets, p.Bounds, i.Name)
					values[series(i.Name, p.Attributes)] = float64(p.Count)
					values[series(i.Name+"_sum", p.Attributes)] = p.Sum
				}
			default:
				require.Fail(m.t, "unexpected kind", "%s is a %T", i.Name, data)
			}
		}
	}
	return values
}

func series(name string, labels attribute.Set) string {
	var pairs []string
	for _, a := range labels.ToSlice() {
		pairs = append(pairs, string(a.Key)+"="+a.Value.String())
	}
	if len(pairs) == 0 {
		return name
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// sum adds up the values of all series that begin and end so.
func sum(values map[string]float64, begin, end string) (total float64) {
	for name, value := range values {
		if strings.HasPrefix(name, begin) && strings.HasSuffix(name, end) {
			total += value
		}
	}
	return total
}

// addsUp checks the promise that an operator reckons with.
func addsUp(t require.TestingT, v map[string]float64, channel string) {
	key := func(outcome string) float64 { return v["svc.notify.keys{channel="+channel+",outcome="+outcome+"}"] }
	require.Equal(t, key("added"), key("coalesced")+key("delivered")+key("rejected")+v["svc.notify.pending{channel="+channel+"}"], "%v", v)
}

// The counts add up at every moment, while backends are killed under a load with bad payloads in it, and in the end the histograms agree.
func TestMetricsAddUpUnderFaults(t *testing.T) {
	dsn := testDSN(t)
	looker := admin(t, dsn)
	r := startRig(t, SenderConfig{DSN: dsn}, "a", "b")
	m := newMeters(t)
	m.measure(Measured{Pump: r.pump})
	before := m.collect()
	require.Contains(t, before, "svc.notify.reconnects{channel=a,reason=shutdown}", "there before the first, so that a rate sees it")
	require.NotContains(t, before, "svc.notify.reconnects{channel=a,reason=payload}")

	stop := r.load(4, 100*time.Microsecond, "a", "b")
	killed := map[int]bool{}
	require.Eventually(t, func() bool {
		r.pump.Add("a", "the same again")
		r.pump.Add("b", strings.Repeat("x", 8000))
		killed[query[int](t, looker, `SELECT coalesce(max(pid), 0) FROM (
			SELECT pid, pg_terminate_backend(pid) AS killed FROM pg_stat_activity WHERE `+onlyPump+` AND state = 'active') k WHERE killed`)] = true
		v := m.collect()
		addsUp(t, v, "a")
		addsUp(t, v, "b")
		return len(killed) > 5 && v["svc.notify.keys{channel=b,outcome=rejected}"] > 0 && v["svc.notify.keys{channel=a,outcome=retried}"] > 0
	}, soon, look)
	added := stop()
	r.settled("a")
	r.settled("b")

	v := m.collect()
	for _, channel := range []string{"a", "b"} {
		addsUp(t, v, channel)
		s := r.pump.Stats(channel)
		require.Zero(t, v["svc.notify.pending{channel="+channel+"}"])
		require.Zero(t, v["svc.notify.pending.oldest_age{channel="+channel+"}"])
		require.EqualValues(t, s.Added, v["svc.notify.keys{channel="+channel+",outcome=added}"])
		require.GreaterOrEqual(t, v["svc.notify.keys{channel="+channel+",outcome=delivered}"], float64(len(added[channel])))

		// Each statement is in both histograms; those that went well carried each key once.
		statements := sum(v, "svc.notify.exec.duration{channel="+channel, "}")
		require.Equal(t, statements, v["svc.notify.batch.size{channel="+channel+"}"])
		require.GreaterOrEqual(t, v["svc.notify.batch.size_sum{channel="+channel+"}"], v["svc.notify.keys{channel="+channel+",outcome=delivered}"])
		require.Positive(t, v["svc.notify.delay{channel="+channel+"}"])
		require.InDelta(t, s.Waited.Seconds()/float64(s.Delivered+s.Rejected), v["svc.notify.delay_sum{channel="+channel+"}"]/v["svc.notify.delay{channel="+channel+"}"],
			s.Waited.Seconds(), "samples and the mean of all are of one kind")
	}
	require.EqualValues(t, r.sender.Stats().Statements, sum(v, "svc.notify.exec.duration{", ",outcome=ok}"))
	require.GreaterOrEqual(t, sum(v, "svc.notify.reconnects{", "}"), 5.0)
	require.GreaterOrEqual(t, sum(v, "svc.notify.reconnects{", ",reason=shutdown}"), 1.0)

	r.pump.Add("a", "and it still works")
	r.settled("a")
	after := m.collect()
	require.Equal(t, v["svc.notify.keys{channel=a,outcome=delivered}"]+1, after["svc.notify.keys{channel=a,outcome=delivered}"])
	require.Equal(t, v["svc.notify.delay{channel=a}"]+1, after["svc.notify.delay{channel=a}"])
}

// Of a large batch a few delays are recorded, the longest among them.
func TestDelaySamples(t *testing.T) {
	pump, err := NewPump("c")
	require.NoError(t, err)
	m := newMeters(t)
	m.measure(Measured{Pump: pump})
	settle := func(n int) {
		batch := Batch{Channel: "c"}
		for i := range n {
			batch.Entries = append(batch.Entries, Entry{Payload: fmt.Sprint(i), AddedAt: time.Now().Add(time.Duration(i-n) * time.Hour)})
		}
		observe := *pump.onSettled.Load()
		observe(Outcome{Batch: batch}, time.Now())
	}
	settle(3)
	require.EqualValues(t, 3, m.collect()["svc.notify.delay{channel=c}"])
	require.InDelta(t, (3+2+1)*3600, m.collect()["svc.notify.delay_sum{channel=c}"], 60)
	settle(16)
	require.EqualValues(t, 3+4, m.collect()["svc.notify.delay{channel=c}"])
	require.InDelta(t, (3+2+1+16+12+8+4)*3600, m.collect()["svc.notify.delay_sum{channel=c}"], 60)
	settle(0)
	require.EqualValues(t, 3+4, m.collect()["svc.notify.delay{channel=c}"])

	for range maxUnrecorded { // more than wait for a collection
		settle(4)
	}
	require.EqualValues(t, 3+4+4*maxUnrecorded, m.collect()["svc.notify.delay{channel=c}"])
}

func TestListenerMetrics(t *testing.T) {
	dsn := testDSN(t)
	th := newThings(t, dsn)
	replica := startReplica(t, dsn, th, nil)
	replica.awaitReady(t)
	m := newMeters(t)
	m.measure(Measured{Listener: replica.listener})
	v := m.collect()
	require.EqualValues(t, 1, v["svc.listen.connected"])
	require.EqualValues(t, 1, v["svc.listen.ready"])
	require.EqualValues(t, 1, v["svc.listen.catchups{reason=connect}"])
	require.Contains(t, v, "svc.listen.reconnects{reason=timeout}")

	view := replica.startView(t, "run/")
	announcer := startAnnouncer(t, dsn)
	announcer.update(t, th, "run/a", 1)
	view.awaitValue(t, "run/a", 1)
	v = m.collect()
	require.Positive(t, v["svc.listen.received"])
	require.Positive(t, v["svc.listen.lag"])
	require.Less(t, v["svc.listen.lag_sum"]/v["svc.listen.lag"], 30.0, "by one clock, not by two")
	require.Positive(t, replica.listener.Stats().Lag)
	require.EqualValues(t, 1, v["svc.listen.subscribers{state=current}"]+v["svc.listen.subscribers{state=behind}"])

	looker := admin(t, dsn)
	require.True(t, query[bool](t, looker, "SELECT pg_terminate_backend($1)", replica.listener.Stats().BackendPID))
	require.Eventually(t, func() bool {
		v = m.collect()
		return v["svc.listen.connected"] == 1 && v["svc.listen.reconnects{reason=shutdown}"] == 1 && v["svc.listen.catchups{reason=connect}"] == 2
	}, soon, look)
	require.NoError(t, replica.listener.Close(t.Context()))
	v = m.collect()
	require.Zero(t, v["svc.listen.connected"])
	require.Zero(t, v["svc.listen.ready"])
}

func TestQueueUsageMetric(t *testing.T) {
	sender, err := NewSender(SenderConfig{DSN: testDSN(t)})
	require.NoError(t, err)
	m := newMeters(t)
	m.measure(Measured{Pool: sender.db})
	usage, there := m.collect()["svc.notify.queue_usage"]
	require.True(t, there)
	require.GreaterOrEqual(t, usage, 0.0)
	require.Less(t, usage, 1.0)

	require.NoError(t, sender.Close())
	require.NotContains(t, m.collect(), "svc.notify.queue_usage", "without an answer there is no value, and no error")
}

// A meter that makes nothing costs the metrics, not the notifications.
func TestAFailingMeterIsNotFatal(t *testing.T) {
	server := &fakeServer{}
	sender := fakeSender(t, server)
	pump, err := NewPump("c")
	require.NoError(t, err)
	stop, err := Measure(brokenProvider{}, "svc.", Measured{Pump: pump, Pool: sender.db})
	require.ErrorIs(t, err, errBroken)
	for _, name := range []string{"svc.notify.pending", "svc.notify.keys", "svc.notify.delay", "svc.notify.reconnects", "svc.notify.queue_usage"} {
		require.ErrorContains(t, err, "metric "+name+": broken")
	}
	pump.Add("c", "x")
	out := sender.Send(t.Context(), pump.Take("c"))
	pump.Settle(out)
	out.Err, out.Reason = errBroken, ReasonOther
	(*pump.onSettled.Load())(out, time.Now())
	require.EqualValues(t, 1, pump.Stats("c").Delivered)
	stop()
	require.Nil(t, pump.onSettled.Load())
	stop()
}

func TestMeasuringNothing(t *testing.T) {
	pump, err := NewPump("c")
	require.NoError(t, err)
	stop, err := Measure(noop.NewMeterProvider(), "svc.", Measured{Pump: pump})
	require.NoError(t, err)
	pump.Add("c", "x")
	pump.Settle(Outcome{Batch: pump.Take("c"), Statements: []Statement{{Payloads: 1}}})
	stop()
}

var errBroken = errors.New("broken")

type brokenProvider struct{ embedded.MeterProvider }

func (brokenProvider) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ noop.Meter }

func (brokenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errBroken
}

func (brokenMeter) Int64Histogram(string, ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return nil, errBroken
}

func (brokenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errBroken
}

func (brokenMeter) Int64ObservableCounter(string, ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return nil, errBroken
}

func (brokenMeter) Int64ObservableGauge(string, ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return nil, errBroken
}

func (brokenMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, errBroken
}

func (brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, errBroken
}

// What metrics cost the sending of a batch, on a server next door, where it shows most: with and without them by turns, so that what else
// the machine does strikes both alike. Reported are the medians.
func BenchmarkMetrics(b *testing.B) {
	dsn := testDSN(b)
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := newMeters(b)
			payloads := numbered(n)
			type side struct {
				pump *Pump
				took []time.Duration
			}
			sides := [2]*side{{}, {}}
			for i, s := range sides {
				var err error
				s.pump, err = NewPump("c")
				require.NoError(b, err)
				if i == 1 {
					m.measure(Measured{Pump: s.pump})
				}
			}
			sender, err := NewSender(SenderConfig{DSN: dsn})
			require.NoError(b, err)
			defer func() { require.NoError(b, sender.Close()) }()
			send := func(s *side) {
				began := time.Now()
				for _, p := range payloads {
					s.pump.Add("c", p)
				}
				s.pump.Settle(sender.Send(context.Background(), s.pump.Take("c")))
				s.took = append(s.took, time.Since(began))
			}
			send(sides[0]) // makes the connection
			sides[0].took = nil
			for i := 0; b.Loop(); i++ {
				send(sides[i%2])
				send(sides[1-i%2])
			}
			median := func(s *side) float64 {
				slices.Sort(s.took)
				return float64(s.took[len(s.took)/2].Nanoseconds())
			}
			off, on := median(sides[0]), median(sides[1])
			b.ReportMetric(off/1000, "off-µs")
			b.ReportMetric(on/1000, "on-µs")
			b.ReportMetric(100*(on-off)/off, "%cost")

			// The recording alone, which is what the difference is made of.
			observe := *sides[1].pump.onSettled.Load()
			out := Outcome{Batch: batchOf("c", payloads...), Statements: []Statement{{Payloads: n, Took: time.Millisecond}}}
			began := time.Now()
			for range 10_000 {
				observe(out, began)
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/10_000/1000, "recording-µs")
		})
	}
}
