package impl

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
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
	if err := r.measureReads(meters.Meter("github.com/flyteorg/flyte/v2/runs/repository/impl")); err != nil {
		logger.Warnf(context.Background(), "the metrics of the watchers' reads are missing: %v", err)
	}
	return stop
}

// measureReads measures the statements that read for watchers: runs.watch.read.duration{outcome} and runs.watch.read.rows.
func (r *actionRepo) measureReads(meter metric.Meter) error {
	duration, err := meter.Float64Histogram("runs.watch.read.duration", metric.WithUnit("s"),
		metric.WithDescription("One statement that reads changed rows for all watchers that wait for some, until the answer."),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10))
	rows, rowsErr := meter.Int64Histogram("runs.watch.read.rows", metric.WithUnit("{row}"), metric.WithDescription("Rows that such a statement is to read."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024))
	if err := errors.Join(err, rowsErr); err != nil {
		return err
	}
	ok := metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", "ok")))
	failed := metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", "failed")))
	r.joint.observe = func(n int, took time.Duration, err error) {
		outcome := ok
		if err != nil {
			outcome = failed
		}
		duration.Record(context.Background(), took.Seconds(), outcome)
		rows.Record(context.Background(), int64(n))
	}
	return nil
}
