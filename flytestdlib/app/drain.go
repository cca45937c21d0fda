package app

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
)

// errDraining is what the client of a stream that ends because of a shutdown gets, with the code unavailable: start it again,
// elsewhere.
var errDraining = errors.New("the service is shutting down")

// StreamInterceptor ends streams when the process drains: without it they would last until the drain timeout, since neither
// end of a watch stream has a reason to stop.
//
// A stream from the server has its context ended. A stream from the client, or both ways, stops receiving: the message in
// hand is finished and answered. Either way the client gets the code unavailable, and can tell this from a stream that came
// to its own end. Unary RPCs are left alone.
func (a *App) StreamInterceptor() connect.Interceptor {
	return streamDrain{draining: a.draining}
}

type streamDrain struct {
	draining context.Context
}

func (d streamDrain) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

func (d streamDrain) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (d streamDrain) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if conn.Spec().StreamType == connect.StreamTypeServer {
			return d.cancel(ctx, conn, next)
		}
		return d.stopReceiving(ctx, conn, next)
	}
}

func (d streamDrain) cancel(ctx context.Context, conn connect.StreamingHandlerConn, next connect.StreamingHandlerFunc) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(d.draining, func() { cancel(errDraining) })
	defer stop()

	err := next(ctx, conn)
	if errors.Is(context.Cause(ctx), errDraining) {
		return connect.NewError(connect.CodeUnavailable, errDraining)
	}
	return err
}

func (d streamDrain) stopReceiving(ctx context.Context, conn connect.StreamingHandlerConn, next connect.StreamingHandlerFunc) error {
	stop := context.AfterFunc(d.draining, func() {
		if controller, ok := ctx.Value(controllerKey{}).(*http.ResponseController); ok {
			// An error means that the connection is gone, and the stream with it.
			_ = controller.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer stop()

	err := next(ctx, conn)
	if d.draining.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return connect.NewError(connect.CodeUnavailable, errDraining)
	}
	return err
}

type controllerKey struct{}

// withController leaves the request's controller in its context, where an interceptor, which does not see the
// http.ResponseWriter, finds it.
func withController(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), controllerKey{}, http.NewResponseController(w))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
