package service

import (
	"context"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

// eventsProxyService is what executors report to.
type eventsProxyService struct {
	*backend
}

func (s *eventsProxyService) Record(
	ctx context.Context, request *connect.Request[workflow.RecordRequest],
) (*connect.Response[workflow.RecordResponse], error) {
	rows, err := newEvents(request.Msg.GetEvents())
	if err != nil {
		return nil, err
	}
	if err := s.repo.InsertEvents(ctx, rows); err != nil {
		return nil, err
	}
	return connect.NewResponse(&workflow.RecordResponse{}), nil
}
