package impl

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/task"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

func text(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }

// list returns the names of the actions that filter lets through, sorted.
func list(t *testing.T, r *actionRepo, filter interfaces.Filter) []string {
	t.Helper()
	actions, err := r.ListActions(t.Context(), interfaces.ListResourceInput{Limit: 1000, Filter: filter})
	require.NoError(t, err)
	names := []string{}
	for _, action := range actions {
		names = append(names, action.Name)
	}
	slices.Sort(names)
	return names
}

func TestListActionsFilters(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	created := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i, a := range []struct {
		name      string
		phase     common.ActionPhase
		taskName  sql.NullString
		taskType  string
		attempts  uint32
		duration  sql.NullInt64
		shortName sql.NullString
	}{
		{"a0", running, sql.NullString{}, "", 1, sql.NullInt64{}, sql.NullString{}},
		{"a1", queued, text("train.fit"), "python", 1, sql.NullInt64{}, text("")},
		{"a2", succeeded, text("train.Fit_all"), "spark", 2, sql.NullInt64{Int64: 5_000_000_000, Valid: true}, text("100%")},
		{"a3", failed, text("train.Fitxall"), "python", 3, sql.NullInt64{Int64: 7, Valid: true}, text(`back\slash`)},
		{"a4", common.ActionPhase_ACTION_PHASE_PAUSED, text("'; DROP TABLE actions; --"), "python", 1, sql.NullInt64{}, text("1000")},
	} {
		create(t, r, actionID("run", a.name), func(m *models.Action) {
			m.Phase, m.TaskName, m.TaskType, m.Attempts, m.DurationMs, m.TaskShortName = int32(a.phase), a.taskName, a.taskType, a.attempts, a.duration, a.shortName
			m.CreatedAt = created.Add(time.Duration(i) * time.Second)
		})
	}

	tests := []struct {
		column   string
		function common.Filter_Function
		values   []string
		want     []string
	}{
		{"name", common.Filter_EQUAL, []string{"a1"}, []string{"a1"}},
		{"task_name", common.Filter_EQUAL, []string{"'; DROP TABLE actions; --"}, []string{"a4"}},
		{"name", common.Filter_EQUAL, []string{"?"}, []string{}},
		{"name", common.Filter_EQUAL, []string{"@name"}, []string{}},
		{"phase", common.Filter_EQUAL, []string{"4"}, []string{"a0"}},
		{"phase", common.Filter_EQUAL, []string{"ACTION_PHASE_FAILED"}, []string{"a3"}},
		{"phase", common.Filter_EQUAL, []string{"paused"}, []string{"a4"}},
		{"task_name", common.Filter_NOT_EQUAL, []string{"train.fit"}, []string{"a0", "a2", "a3", "a4"}},
		{"attempts", common.Filter_GREATER_THAN, []string{"1"}, []string{"a2", "a3"}},
		{"attempts", common.Filter_GREATER_THAN_OR_EQUAL, []string{"2"}, []string{"a2", "a3"}},
		{"duration_ms", common.Filter_LESS_THAN, []string{"5000000000"}, []string{"a3"}},
		{"duration_ms", common.Filter_LESS_THAN_OR_EQUAL, []string{"5000000000"}, []string{"a2", "a3"}},
		{"created_at", common.Filter_LESS_THAN, []string{"2026-05-01T01:00:02+01:00"}, []string{"a0", "a1"}},
		{"task_name", common.Filter_CONTAINS, []string{"Fit"}, []string{"a2", "a3"}},
		{"task_name", common.Filter_CONTAINS, []string{"Fit_a"}, []string{"a2"}},
		{"task_short_name", common.Filter_CONTAINS, []string{"00%"}, []string{"a2"}},
		{"task_short_name", common.Filter_CONTAINS, []string{`k\s`}, []string{"a3"}},
		{"task_name", common.Filter_CONTAINS_CASE_INSENSITIVE, []string{"FIT"}, []string{"a1", "a2", "a3"}},
		{"task_name", common.Filter_ENDS_WITH, []string{"_all"}, []string{"a2"}},
		{"task_name", common.Filter_NOT_ENDS_WITH, []string{"_all"}, []string{"a0", "a1", "a3", "a4"}},
		{"phase", common.Filter_VALUE_IN, []string{"QUEUED", "6"}, []string{"a1", "a3"}},
		{"task_name", common.Filter_VALUE_NOT_IN, []string{"train.fit", "train.Fitxall"}, []string{"a0", "a2", "a4"}},
		{"task_name", common.Filter_EXISTS, nil, []string{"a1", "a2", "a3", "a4"}},
		{"task_name", common.Filter_NOT_EXISTS, nil, []string{"a0"}},
		{"task_type", common.Filter_EXISTS, nil, []string{"a1", "a2", "a3", "a4"}},
		{"task_short_name", common.Filter_NOT_EXISTS, nil, []string{"a0", "a1"}},
		{"duration_ms", common.Filter_EXISTS, nil, []string{"a2", "a3"}},
		{"duration_ms", common.Filter_NOT_EXISTS, nil, []string{"a0", "a1", "a4"}},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.column, " ", test.function, " ", test.values), func(t *testing.T) {
			filter, err := interfaces.NewFilter(test.column, test.function, test.values...)
			require.NoError(t, err)
			assert.Equal(t, test.want, list(t, r, filter))
		})
	}

	both, err := interfaces.NewFiltersFromProto([]*common.Filter{
		{Field: "task_type", Function: common.Filter_EQUAL, Values: []string{"python"}},
		{Field: "attempts", Function: common.Filter_EQUAL, Values: []string{"1"}},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"a1", "a4"}, list(t, r, both))
	assert.Len(t, list(t, r, interfaces.Filter{}), 5)
}

// Every column of the allow-list must be there, whatever its type.
func TestListActionsTakesEveryColumnItAllows(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	for _, column := range interfaces.Columns() {
		filter, err := interfaces.NewFilter(column, common.Filter_EXISTS)
		require.NoError(t, err)
		key, err := interfaces.NewSortParameter(column, common.Sort_DESCENDING)
		require.NoError(t, err)
		_, err = r.ListActions(t.Context(), interfaces.ListResourceInput{Limit: 1, Filter: filter, SortParameters: []interfaces.SortParameter{key}})
		require.NoError(t, err, column)
	}
}

func TestListActionsScopes(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	at := func(project, domain, run, name string, change ...func(*models.Action)) {
		id := &common.ActionIdentifier{Run: &common.RunIdentifier{Project: project, Domain: domain, Name: run}, Name: name}
		create(t, r, id, append(change, func(a *models.Action) { a.TaskShortName = text(project + "/" + domain + "/" + run + "/" + name) })...)
	}
	at("p", "d", "r1", "a0", func(a *models.Action) { a.TriggerName, a.TriggerTaskName = text("nightly"), text("t") })
	at("p", "d", "r1", "a1", func(a *models.Action) { a.Phase = int32(common.ActionPhase_ACTION_PHASE_PAUSED) })
	at("p", "d", "r2", "a0")
	at("p", "e", "r1", "a0")
	at("q", "d", "r1", "a0", func(a *models.Action) {
		a.TaskProject, a.TaskDomain, a.TaskName, a.TaskVersion = text("q"), text("d"), text("t"), text("v1")
	})

	for name, test := range map[string]struct {
		filter interfaces.Filter
		want   []string
	}{
		"run":     {interfaces.RunScope(&common.RunIdentifier{Project: "p", Domain: "d", Name: "r1"}), []string{"p/d/r1/a0", "p/d/r1/a1"}},
		"project": {interfaces.ProjectScope(&common.ProjectIdentifier{Name: "p", Domain: "d"}), []string{"p/d/r1/a0", "p/d/r1/a1", "p/d/r2/a0"}},
		"roots":   {interfaces.RootActions(), []string{"p/d/r1/a0", "p/d/r2/a0", "p/e/r1/a0", "q/d/r1/a0"}},
		"roots of a project": {
			interfaces.And(interfaces.RootActions(), interfaces.Filter{}, interfaces.ProjectScope(&common.ProjectIdentifier{Name: "p", Domain: "d"})),
			[]string{"p/d/r1/a0", "p/d/r2/a0"},
		},
		"trigger": {interfaces.TriggerScope(&common.TriggerName{Project: "p", Domain: "d", Name: "nightly", TaskName: "t"}), []string{"p/d/r1/a0"}},
		"task":    {interfaces.TaskScope(&task.TaskIdentifier{Project: "q", Domain: "d", Name: "t", Version: "v1"}), []string{"q/d/r1/a0"}},
		"paused":  {interfaces.And(interfaces.RootActions(), interfaces.HasPausedAction()), []string{"p/d/r1/a0"}},
	} {
		actions, err := r.ListActions(t.Context(), interfaces.ListResourceInput{Limit: 100, Filter: test.filter})
		require.NoError(t, err, name)
		var got []string
		for _, action := range actions {
			got = append(got, action.TaskShortName.String)
		}
		slices.Sort(got)
		assert.Equal(t, test.want, got, name)
	}
}

func TestListActionsOrder(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	created := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, a := range []struct {
		run, name string
		phase     common.ActionPhase
		second    int
	}{
		{"r2", "a0", running, 0}, {"r1", "a0", running, 0}, {"r1", "a2", queued, 1}, {"r1", "a1", queued, 1}, {"r1", "a3", queued, 2},
	} {
		create(t, r, actionID(a.run, a.name), func(m *models.Action) {
			m.Phase, m.CreatedAt = int32(a.phase), created.Add(time.Duration(a.second)*time.Second)
		})
	}
	order := func(keys ...string) (parameters []interfaces.SortParameter) {
		for _, key := range keys {
			direction := common.Sort_ASCENDING
			if key[0] == '-' {
				direction, key = common.Sort_DESCENDING, key[1:]
			}
			parameter, err := interfaces.NewSortParameter(key, direction)
			require.NoError(t, err)
			parameters = append(parameters, parameter)
		}
		return parameters
	}
	for _, test := range []struct {
		order  []interfaces.SortParameter
		limit  int
		offset int
		want   []string
	}{
		{nil, 10, 0, []string{"r1/a3", "r1/a1", "r1/a2", "r1/a0", "r2/a0"}},
		{order("-phase"), 10, 0, []string{"r1/a0", "r2/a0", "r1/a1", "r1/a2", "r1/a3"}},
		{order("-name"), 10, 0, []string{"r1/a3", "r1/a2", "r1/a1", "r1/a0", "r2/a0"}},
		{order("-run_name", "created_at"), 10, 0, []string{"r2/a0", "r1/a0", "r1/a1", "r1/a2", "r1/a3"}},
		{nil, 2, 0, []string{"r1/a3", "r1/a1", "r1/a2"}}, // two, and the one that tells that there are more
		{nil, 4, 1, []string{"r1/a1", "r1/a2", "r1/a0", "r2/a0"}},
		{nil, 4, 9, nil},
	} {
		actions, err := r.ListActions(t.Context(), interfaces.ListResourceInput{Limit: test.limit, Offset: test.offset, SortParameters: test.order})
		require.NoError(t, err)
		var got []string
		for _, action := range actions {
			got = append(got, action.RunName+"/"+action.Name)
		}
		assert.Equal(t, test.want, got, "%v", test)
	}
	_, err := r.ListActions(t.Context(), interfaces.ListResourceInput{Limit: 0})
	require.ErrorContains(t, err, "limit")
}

// A row that is there throughout is read exactly once, however many appear, change, or share a time meanwhile.
func TestKeysetPagesUnderConcurrentInserts(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	created := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	const before = 300
	for i := range before {
		create(t, r, actionID("run", fmt.Sprintf("b%03d", i)), func(a *models.Action) {
			a.CreatedAt = created.Add(time.Duration(i/10) * time.Microsecond) // ten to a moment
		})
	}

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// Before, between and after the rows that are there.
				action := models.NewActionModel(actionID("run", fmt.Sprintf("n%d-%d", w, i)))
				action.CreatedAt = created.Add(time.Duration(i%40-5) * time.Microsecond)
				_, err := r.CreateAction(context.Background(), action, false)
				assert.NoError(t, err)
				assert.NoError(t, r.UpdateActionPhase(context.Background(), actionID("run", fmt.Sprintf("b%03d", i%before)), running, uint32(i), core.CatalogCacheStatus_CACHE_HIT, nil, nil))
			}
		})
	}

	seen := make(map[string]int)
	input := interfaces.ListResourceInput{Limit: 7, Filter: interfaces.RunScope(runID("run")), SortParameters: interfaces.KeysetOrder()}
	for {
		page, err := r.ListActions(t.Context(), input)
		require.NoError(t, err)
		more := len(page) > input.Limit
		page = page[:min(len(page), input.Limit)]
		for _, action := range page {
			seen[action.Name]++
		}
		if !more {
			break
		}
		last := page[len(page)-1]
		input.KeysetAfterCreatedAt, input.KeysetAfterName = &last.CreatedAt, last.Name
	}
	close(stop)
	wg.Wait()
	for i := range before {
		assert.Equal(t, 1, seen[fmt.Sprintf("b%03d", i)])
	}
	for name, times := range seen {
		assert.Equal(t, 1, times, name)
	}
}

// Runs are told apart by more than their time: the pages' borders lie within moments, projects and domains here.
func TestPagesOfRunsNewestFirst(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	created := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for moment := range 3 {
		for _, project := range []string{"p", "P", "q-1"} {
			for _, domain := range []string{"d", "é"} {
				for _, run := range []string{"r1", "r_1", "R1"} {
					id := &common.RunIdentifier{Project: project, Domain: domain, Name: fmt.Sprint(run, moment)}
					create(t, r, &common.ActionIdentifier{Run: id, Name: "a0"}, func(a *models.Action) {
						a.CreatedAt = created.Add(time.Duration(moment) * time.Microsecond)
					})
				}
			}
		}
	}
	names := func(rows []*models.Action) (names []rowKey) {
		for _, row := range rows {
			names = append(names, keyOf(row))
		}
		return names
	}
	input := interfaces.ListResourceInput{Limit: 1000, Filter: interfaces.RootActions(), SortParameters: interfaces.NewestFirst()}
	all, err := r.ListActions(t.Context(), input)
	require.NoError(t, err)
	require.Len(t, all, 3*3*2*3)
	require.True(t, slices.IsSortedFunc(all, func(a, b *models.Action) int { return b.CreatedAt.Compare(a.CreatedAt) }))

	for _, limit := range []int{1, 4, 7} {
		input.Limit, input.Filter = limit, interfaces.RootActions()
		var paged []*models.Action
		for {
			page, err := r.ListActions(t.Context(), input)
			require.NoError(t, err)
			paged = append(paged, page[:min(len(page), limit)]...)
			if len(page) <= limit {
				break
			}
			input.Filter = interfaces.And(interfaces.RootActions(), interfaces.OlderThan(page[limit-1]))
		}
		assert.Equal(t, names(all), names(paged), "pages of %d", limit)
	}
}
