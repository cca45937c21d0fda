package service

import (
	"context"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

// runService is what everybody looks at runs through; lists are in list.go, watches in watch_*.go.
type runService struct {
	*backend
}

func (s *runService) AbortRun(
	ctx context.Context, request *connect.Request[workflow.AbortRunRequest],
) (*connect.Response[workflow.AbortRunResponse], error) {
	if err := s.repo.AbortRun(ctx, request.Msg.GetRunId(), request.Msg.GetReason(), nil); err != nil {
		return nil, err
	}
	return connect.NewResponse(&workflow.AbortRunResponse{}), nil
}

func (s *runService) AbortAction(
	ctx context.Context, request *connect.Request[workflow.AbortActionRequest],
) (*connect.Response[workflow.AbortActionResponse], error) {
	if err := s.repo.AbortAction(ctx, request.Msg.GetActionId(), request.Msg.GetReason(), nil); err != nil {
		return nil, err
	}
	return connect.NewResponse(&workflow.AbortActionResponse{}), nil
}

func (s *runService) GetRunDetails(
	ctx context.Context, request *connect.Request[workflow.GetRunDetailsRequest],
) (*connect.Response[workflow.GetRunDetailsResponse], error) {
	details, err := s.runDetails(ctx, request.Msg.GetRunId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&workflow.GetRunDetailsResponse{Details: details}), nil
}

func (s *runService) GetActionDetails(
	ctx context.Context, request *connect.Request[workflow.GetActionDetailsRequest],
) (*connect.Response[workflow.GetActionDetailsResponse], error) {
	details, err := s.actionDetails(ctx, request.Msg.GetActionId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&workflow.GetActionDetailsResponse{Details: details}), nil
}
