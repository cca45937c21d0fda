package pgnotify

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// measureListener returns what ends it.
func (r *registrar) measureListener(l *Listener) (stop func()) {
	r.observeListener(l)
	r.observeCatchUps(l)
	r.observeBacklog(l)

	lag := r.seconds("listen.lag", "Time from a sender's statement, by the server's clock, until its notifications were read.")
	observe := func(d time.Duration) { lag.Record(context.Background(), d.Seconds()) }
	l.onLag.Store(&observe)
	return func() { l.onLag.CompareAndSwap(&observe, nil) }
}

func (r *registrar) observeListener(l *Listener) {
	connected := r.gauge("listen.connected", "", "1 while there is a connection that listens.")
	ready := r.gauge("listen.ready", "", "1 while every change reaches the subscribers: connected, and nothing missed that is not caught up with.")
	received := r.counter("listen.received", "{notification}", "Notifications read from the connection.")
	reconnects := r.counter("listen.reconnects", "{failure}", "Connections that were lost or could not be made.")

	byReason := map[Reason]metric.MeasurementOption{}
	for _, reason := range reasons {
		byReason[reason] = labels("reason", string(reason))
	}
	r.observe("listen.connected", func(_ context.Context, o metric.Observer) error {
		s := l.Stats()
		o.ObserveInt64(connected, oneIf(s.BackendPID != 0))
		o.ObserveInt64(ready, oneIf(s.Ready))
		o.ObserveInt64(received, int64(s.Notifications))
		for _, reason := range reasons {
			o.ObserveInt64(reconnects, int64(s.Failures[reason]), byReason[reason])
		}
		return nil
	}, connected, ready, received, reconnects)
}

func oneIf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}

func (r *registrar) observeCatchUps(l *Listener) {
	catchUps := r.counter("listen.catchups", "{catchup}", "Catch-ups completed, by what made them necessary.")
	failures := r.counter("listen.catchup.failures", "{failure}", "Attempts to catch up that failed.")
	keys := r.counter("listen.catchup.keys", "{key}", "Changes that catch-ups found: announced, or known to have been heard of.")

	connect, interval := labels("reason", "connect"), labels("reason", "interval")
	lost, subscriber := labels("reason", "lost"), labels("reason", "subscriber")
	announced, known := labels("outcome", "announced"), labels("outcome", "known")
	r.observe("listen.catchups", func(_ context.Context, o metric.Observer) error {
		s := l.Stats()
		o.ObserveInt64(catchUps, int64(s.CatchUpsConnect), connect)
		o.ObserveInt64(catchUps, int64(s.CatchUpsInterval), interval)
		o.ObserveInt64(catchUps, int64(s.CatchUpsLost), lost)
		o.ObserveInt64(catchUps, int64(s.Backlog.Gaps), subscriber)
		o.ObserveInt64(failures, int64(s.CatchUpErrors))
		o.ObserveInt64(keys, int64(s.CatchUpMissed), announced)
		o.ObserveInt64(keys, int64(s.CatchUpRows-min(s.CatchUpRows, s.CatchUpMissed)), known)
		return nil
	}, catchUps, failures, keys)
}

func (r *registrar) observeBacklog(l *Listener) {
	waiting := r.gauge("listen.backlog", "{key}", "Payloads that wait to be handed on.")
	size := r.gauge("listen.backlog.size", "By", "Memory of what is kept for subscribers that are new or behind.")
	subscribers := r.gauge("listen.subscribers", "{subscriber}", "Subscribers by whether they keep up.")
	overflow := r.counter("listen.overflow", "{overflow}", "Payloads dropped before anybody got them, and subscribers that missed what was dropped; catch-ups make up for both.")

	current, behind := labels("state", "current"), labels("state", "behind")
	lost, subscriber := labels("kind", "lost"), labels("kind", "subscriber")
	r.observe("listen.backlog", func(_ context.Context, o metric.Observer) error {
		s := l.backlog.Stats()
		o.ObserveInt64(waiting, int64(s.Waiting))
		o.ObserveInt64(size, int64(s.Bytes))
		o.ObserveInt64(subscribers, int64(s.Subscribers-s.Behind), current)
		o.ObserveInt64(subscribers, int64(s.Behind), behind)
		o.ObserveInt64(overflow, int64(s.Lost), lost)
		o.ObserveInt64(overflow, int64(s.Gaps), subscriber)
		return nil
	}, waiting, size, subscribers, overflow)
}
