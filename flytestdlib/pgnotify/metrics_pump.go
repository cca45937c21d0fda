package pgnotify

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// delaySamples is how many payloads of a batch, evenly spread and the longest waiting one among them, go into the histogram of delays. The
// entries of a batch were added one after the other and confirmed together, so a few tell what all would, and recording a thousand
// would take a tenth of the time that sending them does. How many payloads there were is what notify.keys counts.
const delaySamples = 8

// pumpChannelMetrics is what is recorded for one channel. Reconnects are recorded when they happen, everything else that is not a
// distribution is read from Stats.
type pumpChannelMetrics struct {
	channel    metric.MeasurementOption
	outcomes   map[Reason]metric.MeasurementOption // the empty Reason: ok
	reconnects map[Reason]metric.MeasurementOption
}

// measurePump returns what ends it.
func (r *registrar) measurePump(p *Pump) (stop func()) {
	r.observePump(p)

	exec := r.seconds("notify.exec.duration", "Time until the server's answer to one statement.")
	size := r.sizes("notify.batch.size", "{key}", "Payloads in one statement.")
	delay := r.seconds("notify.delay", "Time from adding a payload to its delivery, of some payloads of each batch.")
	reconnects, err := r.meter.Int64Counter(r.prefix+"notify.reconnects", metric.WithUnit("{failure}"),
		metric.WithDescription("Attempts to send that failed; each gives its connection up."))
	if r.failed("notify.reconnects", err) {
		reconnects = nil
	}

	ctx := context.Background()
	byChannel := map[string]*pumpChannelMetrics{}
	for _, c := range p.order {
		m := &pumpChannelMetrics{
			channel:    labels("channel", c.name),
			outcomes:   map[Reason]metric.MeasurementOption{"": labels("channel", c.name, "outcome", "ok")},
			reconnects: map[Reason]metric.MeasurementOption{},
		}
		for _, reason := range reasons {
			m.outcomes[reason] = labels("channel", c.name, "outcome", string(reason))
			if reason == ReasonPayload { // costs a payload, no connection
				continue
			}
			m.reconnects[reason] = labels("channel", c.name, "reason", string(reason))
			if reconnects != nil {
				reconnects.Add(ctx, 0, m.reconnects[reason]) // so that the first one is seen as an increase
			}
		}
		byChannel[c.name] = m
	}

	observe := func(o Outcome, now time.Time) {
		m := byChannel[o.Batch.Channel]
		for _, s := range o.Statements {
			exec.Record(ctx, s.Took.Seconds(), m.outcomes[s.Reason])
			size.Record(ctx, int64(s.Payloads), m.channel)
		}
		if done := o.done(); len(done) > 0 {
			for i := range min(delaySamples, len(done)) {
				e := done[i*len(done)/min(delaySamples, len(done))]
				delay.Record(ctx, now.Sub(e.AddedAt).Seconds(), m.channel)
			}
		}
		if o.Err != nil && reconnects != nil {
			reconnects.Add(ctx, 1, m.reconnects[o.Reason])
		}
	}
	p.onSettled.Store(&observe)
	return func() { p.onSettled.CompareAndSwap(&observe, nil) }
}

// observePump reads the pump's counts at each collection: those of a channel at one instant, so that they add up.
func (r *registrar) observePump(p *Pump) {
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
