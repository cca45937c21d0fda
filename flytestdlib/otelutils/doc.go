// Package otelutils gives a service its metrics: an OpenTelemetry meter provider whose instruments are read at /metrics by
// Prometheus.
//
// A service calls [RegisterMeterProvider] once at its start, under its name; its parts ask [GetMeterProvider] for that name
// and need not know whether anybody measures: without a registration they get a provider that does nothing.
//
// Instruments have dotted names and base units and come out in Prometheus' spelling: runs.notify.exec.duration in s becomes
// runs_notify_exec_duration_seconds, counters end in _total. Histograms in seconds get buckets that resolve 0.1 ms to 30 s,
// whatever the instrument asks for, so that any two of them can be compared; other histograms choose their own.
package otelutils
