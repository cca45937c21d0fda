package service

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// listActions reads all pages and returns the names, and how many pages there were.
func listActions(t *testing.T, server *testServer, request *workflow.ListActionsRequest) (names []string, pages int) {
	t.Helper()
	for {
		response, err := server.runs().ListActions(t.Context(), connect.NewRequest(request))
		require.NoError(t, err)
		pages++
		for _, action := range response.Msg.GetActions() {
			names = append(names, action.GetId().GetName())
		}
		if response.Msg.GetToken() == "" {
			return names, pages
		}
		request.Request.Token = response.Msg.GetToken()
	}
}

func sortBy(key string, direction common.Sort_Direction) *common.Sort {
	return &common.Sort{Key: key, Direction: direction}
}

func TestPagesMeetWithoutGapOrOverlap(t *testing.T) {
	repo, quiet := newRepos(t)
	server := newServer(t, repo)
	var oldestFirst []string
	for i := range 25 {
		name := fmt.Sprintf("a%02d", i)
		oldestFirst = append(oldestFirst, name)
		create(t, quiet, actionID("run", name), func(row *models.Action) {
			row.CreatedAt = testTime.Add(time.Duration(i/3) * time.Microsecond) // the least that the database tells apart, and equal ones
		})
	}
	newestFirst := slices.Clone(oldestFirst)
	slices.SortStableFunc(newestFirst, func(a, b string) int {
		var i, j int
		_, _ = fmt.Sscanf(a+" "+b, "a%d a%d", &i, &j)
		return j/3 - i/3
	})
	keyset := []*common.Sort{sortBy("created_at", common.Sort_ASCENDING), sortBy("name", common.Sort_ASCENDING)}
	for name, test := range map[string]struct {
		request *common.ListRequest
		want    []string
	}{
		"after a row":        {&common.ListRequest{SortByFields: keyset}, oldestFirst},
		"after a number":     {&common.ListRequest{SortBy: sortBy("created_at", common.Sort_ASCENDING)}, oldestFirst},
		"by default":         {&common.ListRequest{}, newestFirst},
		"names, from behind": {&common.ListRequest{SortBy: sortBy("name", common.Sort_DESCENDING)}, reversed(oldestFirst)},
		"sort_by_fields win": {&common.ListRequest{SortByFields: keyset, SortBy: sortBy("name", common.Sort_DESCENDING)}, oldestFirst},
	} {
		for _, limit := range []uint32{1, 4, 24, 25, 26, 5000} {
			t.Run(fmt.Sprintf("%s, pages of %d", name, limit), func(t *testing.T) {
				test.request.Limit, test.request.Token = limit, ""
				names, pages := listActions(t, server, &workflow.ListActionsRequest{RunId: runID("run"), Request: test.request})
				assert.Equal(t, test.want, names)
				assert.EqualValues(t, (25+limit-1)/limit, pages, "the last page has no token, even when it is full")
			})
		}
	}

	// Nothing said about the page.
	response, err := server.runs().ListActions(t.Context(), connect.NewRequest(&workflow.ListActionsRequest{RunId: runID("run")}))
	require.NoError(t, err)
	assert.Len(t, response.Msg.GetActions(), 25)
	assert.Empty(t, response.Msg.GetToken())
}

func reversed(names []string) []string {
	names = slices.Clone(names)
	slices.Reverse(names)
	return names
}

func TestPageSizesAreBounded(t *testing.T) {
	assert.Equal(t, 100, pageSize(0))
	assert.Equal(t, 1, pageSize(1))
	assert.Equal(t, 1000, pageSize(1000))
	assert.Equal(t, 1000, pageSize(1001))
	assert.Equal(t, 1000, pageSize(1<<32-1))
}

func TestTokensAreGoodForTheirListOnly(t *testing.T) {
	repo := newRepo(t)
	server := newServer(t, repo)
	for _, name := range []string{"a0", "a1", "a2"} {
		create(t, repo, actionID("run", name))
	}
	keyset := []*common.Sort{sortBy("created_at", common.Sort_ASCENDING), sortBy("name", common.Sort_ASCENDING)}
	tokenOf := func(request *workflow.ListActionsRequest) string {
		response, err := server.runs().ListActions(t.Context(), connect.NewRequest(request))
		require.NoError(t, err)
		require.NotEmpty(t, response.Msg.GetToken())
		return response.Msg.GetToken()
	}
	byNumber := tokenOf(&workflow.ListActionsRequest{RunId: runID("run"), Request: &common.ListRequest{Limit: 1}})
	byRow := tokenOf(&workflow.ListActionsRequest{RunId: runID("run"), Request: &common.ListRequest{Limit: 1, SortByFields: keyset}})
	forgeFrom := func(text string, change func(*pageToken)) string {
		plain, err := base64.RawURLEncoding.DecodeString(text)
		require.NoError(t, err)
		var list string
		_, rest, _ := strings.Cut(string(plain), `"list":"`)
		list, _, _ = strings.Cut(rest, `"`)
		token := pageToken{List: list}
		change(&token)
		return token.encode()
	}
	forge := func(change func(*pageToken)) string { return forgeFrom(byNumber, change) }

	for name, request := range map[string]*workflow.ListActionsRequest{
		"of another order":  {RunId: runID("run"), Request: &common.ListRequest{Token: byRow}},
		"of another run":    {RunId: runID("other"), Request: &common.ListRequest{Token: byNumber}},
		"of another filter": {RunId: runID("run"), Request: &common.ListRequest{Token: byNumber, Filters: []*common.Filter{{Field: "phase", Values: []string{"1"}}}}},
		"no base64":         {RunId: runID("run"), Request: &common.ListRequest{Token: "?"}},
		"no JSON":           {RunId: runID("run"), Request: &common.ListRequest{Token: "AAAA"}},
		"too long":          {RunId: runID("run"), Request: &common.ListRequest{Token: strings.Repeat("A", 1000)}},
		"below 0":           {RunId: runID("run"), Request: &common.ListRequest{Token: forge(func(t *pageToken) { t.Offset = -1 })}},
		"far out":           {RunId: runID("run"), Request: &common.ListRequest{Token: forge(func(t *pageToken) { t.Offset = maxOffset + 1 })}},
		"half a row":        {RunId: runID("run"), Request: &common.ListRequest{Token: forge(func(t *pageToken) { t.Name = "a" })}},
		"a row where rows do not count": {RunId: runID("run"), Request: &common.ListRequest{Token: forge(func(t *pageToken) {
			t.Name, t.CreatedAt = "a", &testTime
		})}},
		"after a row and a number of rows": {RunId: runID("run"), Request: &common.ListRequest{SortByFields: keyset, Token: forgeFrom(byRow, func(t *pageToken) {
			t.Name, t.CreatedAt, t.Offset = "a", &testTime, 1
		})}},
	} {
		_, err := server.runs().ListActions(t.Context(), connect.NewRequest(request))
		require.Error(t, err, name)
		requireCode(t, connect.CodeInvalidArgument, err, "request.token")
	}
	// Another size of page is fine.
	_, err := server.runs().ListActions(t.Context(), connect.NewRequest(&workflow.ListActionsRequest{
		RunId: runID("run"), Request: &common.ListRequest{Token: byNumber, Limit: 7},
	}))
	require.NoError(t, err)
}

func TestListRunsKeepsToItsScope(t *testing.T) {
	repo := newRepo(t)
	server := newServer(t, repo)
	create(t, repo, actionID("mine", "a0"))
	create(t, repo, actionID("mine", "a1"))
	create(t, repo, actionID("triggered", "a0"), func(row *models.Action) {
		row.TriggerName, row.TriggerTaskName = nullable("nightly"), nullable("env.fn")
		row.TaskVersion = nullable("v2")
	})
	create(t, repo, actionID("waiting", "a0"), func(row *models.Action) { row.Phase = int32(running) })
	create(t, repo, actionID("waiting", "a1"), func(row *models.Action) { row.Phase = int32(paused) })
	foreign := &common.RunIdentifier{Org: "org", Project: "other", Domain: "dev", Name: "foreign"}
	create(t, repo, &common.ActionIdentifier{Run: foreign, Name: "a0"}, func(row *models.Action) { row.TaskName = nullable("env.other") })

	project := &workflow.ListRunsRequest_ProjectId{ProjectId: &common.ProjectIdentifier{Organization: "org", Domain: "dev", Name: "proj"}}
	notProbe := &common.ListRequest{Filters: []*common.Filter{{Field: "run_name", Function: common.Filter_NOT_EQUAL, Values: []string{"probe"}}}}
	for name, test := range map[string]struct {
		request *workflow.ListRunsRequest
		want    []string
	}{
		"organization": {&workflow.ListRunsRequest{ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"}}, []string{"mine", "triggered", "waiting", "foreign"}},
		"project":      {&workflow.ListRunsRequest{ScopeBy: project}, []string{"mine", "triggered", "waiting"}},
		"task":         {&workflow.ListRunsRequest{ScopeBy: &workflow.ListRunsRequest_TaskId{TaskId: taskID()}}, []string{"mine", "waiting"}},
		"trigger": {&workflow.ListRunsRequest{ScopeBy: &workflow.ListRunsRequest_TriggerName{TriggerName: &common.TriggerName{
			Org: "org", Project: "proj", Domain: "dev", Name: "nightly", TaskName: "env.fn",
		}}}, []string{"triggered"}},
		"paused": {&workflow.ListRunsRequest{ScopeBy: project, PausedActionsOnly: true}, []string{"waiting"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.request.Request = notProbe
			response, err := server.runs().ListRuns(t.Context(), connect.NewRequest(test.request))
			require.NoError(t, err)
			var names []string
			for _, run := range response.Msg.GetRuns() {
				names = append(names, run.GetAction().GetId().GetRun().GetName())
			}
			assert.ElementsMatch(t, test.want, names)
		})
	}
}
