package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/metric"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// Service answers the RPCs. Its methods may be called from any goroutine.
type Service struct {
	*backend
	mounts []Mount
}

// Mount is an HTTP handler and the path prefix, with a slash at both ends, to register it under.
type Mount struct {
	Path    string
	Handler http.Handler
}

// backend is what all methods share.
type backend struct {
	repo interfaces.ActionRepo
	cfg  Config

	// serving ends when streams are to end; drained is its Done.
	serving context.Context
	drain   context.CancelFunc
	drained <-chan struct{}

	// runsReads and actionsReads are for the first looks of watches. They take turns.
	runsReads    *sharedReads[runsPage]
	actionsReads *sharedReads[[]*models.Action]
}

// errDraining ends streams at shutdown. Clients take unavailable as a reason to try again, elsewhere.
func errDraining() error {
	return connect.NewError(connect.CodeUnavailable, errors.New("the service is shutting down"))
}

// New returns the service over repo, which stays the caller's to close, after the HTTP server has stopped. The durations of RPCs and
// the streams that are open are measured with meters.
func New(cfg Config, repo interfaces.ActionRepo, meters metric.MeterProvider) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("service config: %w", err)
	}
	serving, drain := context.WithCancel(context.Background())
	turns := make(chan struct{}, firstLookReads)
	b := &backend{
		repo: repo, cfg: cfg, serving: serving, drain: drain, drained: serving.Done(),
		runsReads: newSharedReads[runsPage](turns), actionsReads: newSharedReads[[]*models.Action](turns),
	}
	options := handlerOptions(cfg, meters)
	s := &Service{backend: b}
	s.mount(workflowconnect.NewEventsProxyServiceHandler(&eventsProxyService{b}, options...))
	s.mount(workflowconnect.NewInternalRunServiceHandler(&internalRunService{b}, options...))
	s.mount(workflowconnect.NewRunServiceHandler(&runService{b}, options...))
	return s, nil
}

func (s *Service) mount(path string, handler http.Handler) {
	methods := methodsOf(path)
	handler = interruptible(s.drained, methods.takesStream, s.cfg.StreamSendTimeout, handler)
	handler = methods.answerUnknown(handler)
	s.mounts = append(s.mounts, Mount{Path: path, Handler: handler})
}

// Mounts returns one handler for each of the three services. They speak Connect, gRPC and gRPC-Web; gRPC and the streams that run in
// both directions need HTTP/2.
func (s *Service) Mounts() []Mount { return s.mounts }

// Drain ends all streams, present and future, with unavailable, so that clients move on to another replica. Other RPCs are still
// answered. Call it before shutting down the HTTP server, which waits for streams to end.
func (s *Service) Drain() { s.drain() }

// bounded returns a context for one piece of work within a stream, which as a whole has no deadline.
func (b *backend) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.cfg.RequestTimeout, errSlow(b.cfg.RequestTimeout))
}

// reading returns a context like bounded, for what a watch reads. It ends with the drain too: the first look alone may go through many pages.
func (b *backend) reading(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, over := b.bounded(ctx)
	ctx, cutOff := context.WithCancelCause(ctx)
	goOn := context.AfterFunc(b.serving, func() { cutOff(errDraining()) })
	if b.isDrained() {
		cutOff(errDraining()) // at once, where AfterFunc takes its time
	}
	return ctx, func() {
		goOn()
		over()
	}
}

func (b *backend) isDrained() bool { return b.serving.Err() != nil }
