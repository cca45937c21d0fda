package impl

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

const (
	// notifyMeterProvider is under what name the service has registered its meter provider.
	notifyMeterProvider = "runs"
	// notifyMetricPrefix begins the names of the metrics: runs.notify.pending and the like.
	notifyMetricPrefix = "runs."
)

// measureNotify has the pump or the listener measured for as long as the process lives. Without figures everything works.
func measureNotify(provider metric.MeterProvider, measured pgnotify.Measured) {
	if _, err := pgnotify.Measure(provider, notifyMetricPrefix, measured); err != nil {
		logger.Warnf(context.Background(), "some notification metrics are missing: %v", err)
	}
}
