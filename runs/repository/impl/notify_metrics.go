package impl

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// notifyMetricPrefix begins the names of the notification metrics: runs.notify.pending, runs.listen.lag, …
const notifyMetricPrefix = "runs."

// measure measures pump and listener until stop is called. Figures are not worth a repository that does not work: those that cannot be
// made are logged and left out.
func (r *actionRepo) measure(meters metric.MeterProvider) (stop func()) {
	stop, err := pgnotify.Measure(meters, notifyMetricPrefix, pgnotify.Measured{Pump: r.pump, Listener: r.listener, Pool: r.sqlDB})
	if err != nil {
		logger.Warnf(context.Background(), "some notification metrics are missing: %v", err)
	}
	return stop
}
