package service

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// internalRunService is what controllers report to. Failures are told in band, in the response's status; an RPC fails only for a request
// that is invalid in itself.
type internalRunService struct {
	*backend
}

func (s *internalRunService) RecordAction(
	ctx context.Context, request *connect.Request[workflow.RecordActionRequest],
) (*connect.Response[workflow.RecordActionResponse], error) {
	response, err := s.recordAction(ctx, request.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(response), nil
}

func (s *internalRunService) UpdateActionStatus(
	ctx context.Context, request *connect.Request[workflow.UpdateActionStatusRequest],
) (*connect.Response[workflow.UpdateActionStatusResponse], error) {
	response, err := s.updateActionStatus(ctx, request.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(response), nil
}

func (s *internalRunService) RecordActionEvents(
	ctx context.Context, request *connect.Request[workflow.RecordActionEventsRequest],
) (*connect.Response[workflow.RecordActionEventsResponse], error) {
	rows, err := newEvents(request.Msg.GetEvents())
	if err != nil {
		return nil, err
	}
	err = s.repo.InsertEvents(ctx, rows)
	return connect.NewResponse(&workflow.RecordActionEventsResponse{
		Status: inBand(ctx, workflowconnect.InternalRunServiceRecordActionEventsProcedure, err),
	}), nil
}

func (s *internalRunService) RecordActionStream(
	ctx context.Context, stream *connect.BidiStream[workflow.RecordActionStreamRequest, workflow.RecordActionStreamResponse],
) error {
	return converse(ctx, s.backend, stream,
		func(ctx context.Context, request *workflow.RecordActionStreamRequest) (*workflow.RecordActionStreamResponse, error) {
			response, err := s.recordAction(ctx, request.GetRequest())
			return &workflow.RecordActionStreamResponse{Response: response}, err
		})
}

func (s *internalRunService) UpdateActionStatusStream(
	ctx context.Context, stream *connect.BidiStream[workflow.UpdateActionStatusStreamRequest, workflow.UpdateActionStatusStreamResponse],
) error {
	return converse(ctx, s.backend, stream,
		func(ctx context.Context, request *workflow.UpdateActionStatusStreamRequest) (*workflow.UpdateActionStatusStreamResponse, error) {
			response, err := s.updateActionStatus(ctx, request.GetRequest())
			return &workflow.UpdateActionStatusStreamResponse{Response: response, Nonce: request.GetNonce()}, err
		})
}

func (s *internalRunService) RecordActionEventStream(
	ctx context.Context, stream *connect.BidiStream[workflow.RecordActionEventStreamRequest, workflow.RecordActionEventStreamResponse],
) error {
	return converse(ctx, s.backend, stream,
		func(ctx context.Context, request *workflow.RecordActionEventStreamRequest) (*workflow.RecordActionEventStreamResponse, error) {
			response, err := s.recordActionEvent(ctx, request.GetRequest())
			return &workflow.RecordActionEventStreamResponse{Response: response, Nonce: request.GetNonce()}, err
		})
}

// converse answers the requests of a stream one by one, in their order, until the client has no more.
func converse[Request, Response any](
	ctx context.Context, b *backend, stream *connect.BidiStream[Request, Response],
	answer func(context.Context, *Request) (*Response, error),
) error {
	answerOne := func(request *Request) error {
		ctx, cancel := b.bounded(ctx)
		defer cancel()
		response, err := answer(ctx, request)
		if err != nil {
			return err
		}
		return stream.Send(response)
	}
	for {
		request, err := stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && b.isDrained():
			return errDraining()
		case err != nil:
			return err
		}
		if err := answerOne(request); err != nil {
			return err
		}
	}
}

func (s *internalRunService) recordAction(ctx context.Context, request *workflow.RecordActionRequest) (*workflow.RecordActionResponse, error) {
	row, err := newAction(request)
	if err != nil {
		return nil, err
	}
	_, err = s.repo.CreateAction(ctx, row, false)
	return &workflow.RecordActionResponse{
		ActionId: request.GetActionId(),
		Status:   inBand(ctx, workflowconnect.InternalRunServiceRecordActionProcedure, err),
	}, nil
}

func (s *internalRunService) updateActionStatus(
	ctx context.Context, request *workflow.UpdateActionStatusRequest,
) (*workflow.UpdateActionStatusResponse, error) {
	status := request.GetStatus()
	start, err := checkedTime("status.start_time", status.GetStartTime())
	if err != nil {
		return nil, err
	}
	end, err := checkedTime("status.end_time", status.GetEndTime())
	if err != nil {
		return nil, err
	}
	id := request.GetActionId()
	err = s.repo.UpdateActionPhase(ctx, id, status.GetPhase(), status.GetAttempts(), status.GetCacheStatus(), end, start)
	if err == nil && status.GetPhase() == common.ActionPhase_ACTION_PHASE_ABORTED && (request.AbortReason != nil || request.Principal != nil) {
		// Second, so that the end keeps the time that the request gives for it.
		err = s.repo.AbortAction(ctx, id, request.GetAbortReason(), request.GetPrincipal())
	}
	return &workflow.UpdateActionStatusResponse{
		ActionId: id,
		Status:   inBand(ctx, workflowconnect.InternalRunServiceUpdateActionStatusProcedure, err),
	}, nil
}

func (s *internalRunService) recordActionEvent(
	ctx context.Context, request *workflow.RecordActionEventRequest,
) (*workflow.RecordActionEventResponse, error) {
	row, err := newEvent("event", request.GetEvent())
	if err != nil {
		return nil, err
	}
	err = s.repo.InsertEvents(ctx, []*models.ActionEvent{row})
	return &workflow.RecordActionEventResponse{
		ActionId: request.GetEvent().GetId(),
		Status:   inBand(ctx, workflowconnect.InternalRunServiceRecordActionEventStreamProcedure, err),
	}, nil
}
