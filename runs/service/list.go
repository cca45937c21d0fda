package service

import (
	"context"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// defaultPage is the size of a page when the client does not say.
	defaultPage = 100
	// maxPage is the largest page; a client that asks for more gets this many and a token.
	maxPage = 1000
	// maxOffset bounds how deep a list that is read by offset can be paged, since the database walks over all rows before.
	maxOffset = 1_000_000
)

func (s *runService) ListRuns(
	ctx context.Context, request *connect.Request[workflow.ListRunsRequest],
) (*connect.Response[workflow.ListRunsResponse], error) {
	scope := runScopeOf(request.Msg)
	filters := []interfaces.Filter{interfaces.RootActions(), scope.filter}
	if request.Msg.GetPausedActionsOnly() {
		filters = append(filters, interfaces.HasPausedAction())
	}
	digest := listDigest(request.Msg, func(m proto.Message) *common.ListRequest {
		return m.(*workflow.ListRunsRequest).GetRequest()
	})
	rows, token, err := s.page(ctx, request.Msg.GetRequest(), digest, false, filters)
	if err != nil {
		return nil, err
	}
	response := &workflow.ListRunsResponse{Runs: make([]*workflow.Run, len(rows)), Token: token}
	for i, row := range rows {
		response.Runs[i] = runOf(scope.org, row)
	}
	return connect.NewResponse(response), nil
}

func (s *runService) ListActions(
	ctx context.Context, request *connect.Request[workflow.ListActionsRequest],
) (*connect.Response[workflow.ListActionsResponse], error) {
	run := request.Msg.GetRunId()
	digest := listDigest(request.Msg, func(m proto.Message) *common.ListRequest {
		return m.(*workflow.ListActionsRequest).GetRequest()
	})
	rows, token, err := s.page(ctx, request.Msg.GetRequest(), digest, true, []interfaces.Filter{interfaces.RunScope(run)})
	if err != nil {
		return nil, err
	}
	response := &workflow.ListActionsResponse{Actions: make([]*workflow.Action, len(rows)), Token: token}
	for i, row := range rows {
		response.Actions[i] = actionOf(run.GetOrg(), row)
	}
	return connect.NewResponse(response), nil
}

// page reads the page that a client asks for, and returns the token of the next one, empty on the last page. ofOneRun says that the
// filters, which are joined by the client's, let through the actions of one run only.
func (s *runService) page(
	ctx context.Context, request *common.ListRequest, digest string, ofOneRun bool, filters []interfaces.Filter,
) ([]*models.Action, string, error) {
	token, err := decodePageToken(request.GetToken(), digest)
	if err != nil {
		return nil, "", err
	}
	input, err := listInput(request, token, ofOneRun, filters)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.repo.ListActions(ctx, input)
	if err != nil || len(rows) <= input.Limit {
		return rows, "", err
	}
	rows = rows[:input.Limit]
	next := pageToken{List: digest}
	if resumesAfterRow(input, ofOneRun) {
		last := rows[len(rows)-1]
		next.CreatedAt, next.Name = &last.CreatedAt, last.Name
	} else {
		next.Offset = input.Offset + input.Limit
	}
	return rows, next.encode(), nil
}

// listInput turns a client's list request into the repository's. Its errors name the request's field.
func listInput(
	request *common.ListRequest, token pageToken, ofOneRun bool, filters []interfaces.Filter,
) (interfaces.ListResourceInput, error) {
	none := interfaces.ListResourceInput{}
	if len(request.GetRawFilters()) > 0 {
		return none, invalidArgument("request.raw_filters: not supported, use filters")
	}
	asked, err := interfaces.NewFiltersFromProto(request.GetFilters())
	if err != nil {
		return none, invalidArgument("request.%w", err)
	}
	order, err := interfaces.NewSortParametersFromProto(request)
	if err != nil {
		return none, invalidArgument("request.%w", err)
	}
	input := interfaces.ListResourceInput{
		Limit:                pageSize(request.GetLimit()),
		Offset:               token.Offset,
		KeysetAfterCreatedAt: token.CreatedAt,
		KeysetAfterName:      token.Name,
		Filter:               interfaces.And(append(slices.Clone(filters), asked)...),
		SortParameters:       order,
	}
	if input.Offset > maxOffset {
		return none, invalidArgument("request.token: leads past row %d; narrow the list by a filter", maxOffset)
	}
	if token.CreatedAt != nil && !resumesAfterRow(input, ofOneRun) {
		return none, invalidArgument("request.token: not one that this service gave out")
	}
	return input, nil
}

// resumesAfterRow tells whether the list is one that can go on after a row, rather than after a number of rows.
func resumesAfterRow(input interfaces.ListResourceInput, ofOneRun bool) bool {
	return ofOneRun && slices.Equal(input.SortParameters, interfaces.KeysetOrder())
}

func pageSize(limit uint32) int {
	if limit == 0 {
		return defaultPage
	}
	return int(min(limit, maxPage))
}
