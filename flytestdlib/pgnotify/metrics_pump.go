package pgnotify

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// delaySamples is how many payloads of a batch, evenly spread and the longest waiting one among them, go into the histogram of delays. The
// entries of a batch were added one after the other and confirmed together, so a few tell what all would, and recording a thousand
// would take a tenth of the time that sending them does. How many payloads there were is what notify.keys counts.
const delaySamples = 4

// maxUnrecorded is how many measurements wait for the next collection.
const maxUnrecorded = 1024

// pumpRecorder gathers measurements while statements are under way and records them when metrics are collected, or when there are many: one
// after the other that takes a third of the time that it takes in between two statements, when nothing of it is in the cache.
type pumpRecorder struct {
	exec, delay metric.Float64Histogram
	size        metric.Int64Histogram
	reconnects  metric.Int64Counter
	byChannel   map[string]*channelLabels // fixed at construction

	mu         sync.Mutex
	statements []measuredStatement
	delays     []measuredDelay
}

type measuredStatement struct {
	labels *channelLabels
	Statement
}

type measuredDelay struct {
	labels *channelLabels
	delay  time.Duration
}

// channelLabels are the labels of one channel, with the reasons of failures and without; the empty Reason stands for the outcome ok.
type channelLabels struct {
	channel              metric.MeasurementOption
	outcomes, reconnects map[Reason]metric.MeasurementOption
}

func newPumpRecorder(r *registrar, p *Pump) *pumpRecorder {
	rec := &pumpRecorder{
		exec:      r.seconds("notify.exec.duration", "Time until the server's answer to one statement."),
		size:      r.sizes("notify.batch.size", "{key}", "Payloads in one statement."),
		delay:     r.seconds("notify.delay", "Time from adding a payload to its delivery, of some payloads of each batch."),
		byChannel: map[string]*channelLabels{},
	}
	reconnects, err := r.meter.Int64Counter(r.prefix+"notify.reconnects", metric.WithUnit("{failure}"),
		metric.WithDescription("Attempts to send that failed; each gives its connection up."))
	rec.reconnects = reconnects
	if r.failed("notify.reconnects", err) {
		rec.reconnects = noop.Int64Counter{}
	}
	for _, c := range p.order {
		l := &channelLabels{
			channel:    labels("channel", c.name),
			outcomes:   map[Reason]metric.MeasurementOption{"": labels("channel", c.name, "outcome", "ok")},
			reconnects: map[Reason]metric.MeasurementOption{},
		}
		for _, reason := range reasons {
			l.outcomes[reason] = labels("channel", c.name, "outcome", string(reason))
			if reason == ReasonPayload { // costs a payload, no connection
				continue
			}
			l.reconnects[reason] = labels("channel", c.name, "reason", string(reason))
			rec.reconnects.Add(context.Background(), 0, l.reconnects[reason]) // so that the first one is seen as an increase
		}
		rec.byChannel[c.name] = l
	}
	return rec
}

// settled takes in an outcome.
func (rec *pumpRecorder) settled(o Outcome, now time.Time) {
	l := rec.byChannel[o.Batch.Channel]
	if o.Err != nil {
		rec.reconnects.Add(context.Background(), 1, l.reconnects[o.Reason])
	}
	done := o.done()
	samples := min(delaySamples, len(done))

	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, s := range o.Statements {
		rec.statements = append(rec.statements, measuredStatement{l, s})
	}
	for i := range samples {
		rec.delays = append(rec.delays, measuredDelay{l, now.Sub(done[i*len(done)/samples].AddedAt)})
	}
	if len(rec.statements)+len(rec.delays) >= maxUnrecorded {
		rec.record()
	}
}

// flush records what has been gathered.
func (rec *pumpRecorder) flush() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.record()
}

func (rec *pumpRecorder) record() {
	ctx := context.Background()
	for _, s := range rec.statements {
		rec.exec.Record(ctx, s.Took.Seconds(), s.labels.outcomes[s.Reason])
		rec.size.Record(ctx, int64(s.Payloads), s.labels.channel)
	}
	for _, d := range rec.delays {
		rec.delay.Record(ctx, d.delay.Seconds(), d.labels.channel)
	}
	rec.statements, rec.delays = rec.statements[:0], rec.delays[:0]
}

// measurePump returns what ends it.
func (r *registrar) measurePump(p *Pump) (stop func()) {
	rec := newPumpRecorder(r, p)
	r.observePump(p, rec)
	settled := rec.settled
	p.onSettled.Store(&settled)
	return func() {
		p.onSettled.CompareAndSwap(&settled, nil)
		rec.flush()
	}
}

// observePump reads the pump's counts at each collection, those of a channel at one instant, so that they add up, and has rec record.
func (r *registrar) observePump(p *Pump, rec *pumpRecorder) {
	pending := r.gauge("notify.pending", "{key}", "Payloads that wait for delivery or are in flight.")
	oldest := r.floatGauge("notify.pending.oldest_age", "s", "Age of the longest waiting payload.")
	keys := r.counter("notify.keys", "{key}", "Payloads by what became of them.")

	type channel struct {
		name                                                    string
		itself                                                  metric.MeasurementOption
		added, coalesced, delivered, retried, rejected, refused metric.MeasurementOption
	}
	var channels []channel
	for _, c := range p.order {
		of := func(outcome string) metric.MeasurementOption { return labels("channel", c.name, "outcome", outcome) }
		channels = append(channels, channel{
			name: c.name, itself: labels("channel", c.name),
			added: of("added"), coalesced: of("coalesced"), delivered: of("delivered"),
			retried: of("retried"), rejected: of("rejected"), refused: of("refused"),
		})
	}
	r.observe("notify.pending", func(_ context.Context, o metric.Observer) error {
		rec.flush() // histograms are read after the callbacks
		for _, c := range channels {
			s := p.Stats(c.name)
			o.ObserveInt64(pending, int64(s.Pending+s.InFlight), c.itself)
			age := 0.0
			if !s.Oldest.IsZero() {
				age = time.Since(s.Oldest).Seconds()
			}
			o.ObserveFloat64(oldest, age, c.itself)
			o.ObserveInt64(keys, int64(s.Added), c.added)
			o.ObserveInt64(keys, int64(s.Coalesced), c.coalesced)
			o.ObserveInt64(keys, int64(s.Delivered), c.delivered)
			o.ObserveInt64(keys, int64(s.Requeued), c.retried)
			o.ObserveInt64(keys, int64(s.Rejected), c.rejected)
			o.ObserveInt64(keys, int64(s.Refused), c.refused)
		}
		return nil
	}, pending, oldest, keys)
}
