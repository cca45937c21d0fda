package otelutils

import sdkmetric "go.opentelemetry.io/otel/sdk/metric"

// secondsBuckets are the upper bounds of every histogram in seconds, about three a decade: from below the time pg_notify
// takes on an idle server (32 µs) to the longest deadline a caller is likely to have.
var secondsBuckets = []float64{
	0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30,
}

// rpcDuration is otelconnect's name for the duration of an RPC at the server, from version 0.12 on; before that, and in
// Flyte's dashboards, it is called rpc.server.duration.
const rpcDuration = "rpc.server.call.duration"

// durationBuckets gives every histogram in seconds the same buckets, except the one that rpcServerDuration takes.
func durationBuckets(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
	if i.Kind != sdkmetric.InstrumentKindHistogram || i.Unit != "s" || i.Name == rpcDuration {
		return sdkmetric.Stream{}, false
	}

	return secondsStream(i, i.Name), true
}

// rpcServerDuration keeps the established name, so that rpc_server_duration_seconds is what /metrics shows.
func rpcServerDuration(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
	if i.Name != rpcDuration {
		return sdkmetric.Stream{}, false
	}

	return secondsStream(i, "rpc.server.duration"), true
}

func secondsStream(i sdkmetric.Instrument, name string) sdkmetric.Stream {
	return sdkmetric.Stream{
		Name:        name,
		Description: i.Description,
		Unit:        i.Unit,
		Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: secondsBuckets},
	}
}
