package service

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
)

// watchStreams counts the streams that are open now, as runs.watch.streams{rpc}, for each method that watches.
type watchStreams struct {
	open   metric.Int64UpDownCounter
	labels map[string]metric.MeasurementOption // by procedure
}

// watchProcedures are the methods that watch.
var watchProcedures = []string{
	workflowconnect.RunServiceWatchRunsProcedure, workflowconnect.RunServiceWatchRunDetailsProcedure,
	workflowconnect.RunServiceWatchActionsProcedure, workflowconnect.RunServiceWatchActionDetailsProcedure,
}

func newWatchStreams(meters metric.MeterProvider) (*watchStreams, error) {
	open, err := meters.Meter("github.com/flyteorg/flyte/v2/runs/service").Int64UpDownCounter("runs.watch.streams",
		metric.WithUnit("{stream}"), metric.WithDescription("Watch streams that are open."))
	if err != nil {
		return nil, fmt.Errorf("metric runs.watch.streams: %w", err)
	}
	s := &watchStreams{open: open, labels: map[string]metric.MeasurementOption{}}
	for _, procedure := range watchProcedures {
		method := procedure[strings.LastIndex(procedure, "/")+1:]
		s.labels[procedure] = metric.WithAttributeSet(attribute.NewSet(attribute.String("rpc", method)))
		open.Add(context.Background(), 0, s.labels[procedure]) // none is a figure too
	}
	return s, nil
}

func (s *watchStreams) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if label, watches := s.labels[conn.Spec().Procedure]; watches {
			// The stream's end is counted whatever has become of ctx.
			s.open.Add(ctx, 1, label)
			defer s.open.Add(context.WithoutCancel(ctx), -1, label)
		}
		return next(ctx, conn)
	}
}

func (s *watchStreams) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

func (s *watchStreams) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
