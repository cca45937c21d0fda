package service

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"connectrpc.com/validate"
	"go.opentelemetry.io/otel/metric"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// compressMinBytes is where compressing a response begins to save more than it costs.
const compressMinBytes = 4 << 10

// handlerOptions returns what all RPCs have in common; the interceptors are in the order in which a request passes them.
func handlerOptions(cfg Config, meters metric.MeterProvider) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(measuring(meters)...),
		connect.WithRecover(answerPanic),
		connect.WithInterceptors(&boundary{cfg: cfg}, validate.NewInterceptor()),
		connect.WithReadMaxBytes(cfg.MaxRequestBytes),
		connect.WithCompressMinBytes(compressMinBytes),
	}
}

// measuring are the interceptors that measure. Figures are not worth a service that does not start: what cannot be made is logged and left
// out.
func measuring(meters metric.MeterProvider) (interceptors []connect.Interceptor) {
	durations, err := otelconnect.NewInterceptor(otelconnect.WithMeterProvider(meters))
	if err != nil {
		logger.Warnf(context.Background(), "rpc metrics are missing: %v", err)
	} else {
		interceptors = append(interceptors, durations)
	}
	streams, err := newWatchStreams(meters)
	if err != nil {
		logger.Warnf(context.Background(), "stream metrics are missing: %v", err)
	} else {
		interceptors = append(interceptors, streams)
	}
	return interceptors
}

// answerPanic is called where a panic was caught, while its stack is still there.
func answerPanic(ctx context.Context, spec connect.Spec, _ http.Header, value any) error {
	failureLines.Errorf(ctx, "panic: "+spec.Procedure, "panic in %s: %v\n%s", spec.Procedure, value, debug.Stack())
	return connect.NewError(connect.CodeInternal, errors.New("internal error"))
}

// boundary is where a method's errors get their codes, and where a request that is no stream gets its deadline.
type boundary struct {
	cfg Config
}

func (b *boundary) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, b.cfg.RequestTimeout, errSlow(b.cfg.RequestTimeout))
		defer cancel()
		response, err := next(ctx, request)
		if err != nil {
			return nil, connectError(ctx, request.Spec().Procedure, err)
		}
		return response, nil
	}
}

func (b *boundary) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, conn); err != nil {
			return connectError(ctx, conn.Spec().Procedure, err)
		}
		return nil
	}
}

func (b *boundary) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
