package service

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// TestActionFilterAgreesWithTheDatabase asks the database and the filter the same questions about the same rows.
func TestActionFilterAgreesWithTheDatabase(t *testing.T) {
	_, quiet := newRepos(t)
	texts := []string{"", "env.fn", "ENV.FN", "env", "fn", "v%", `back\slash`, "a_b"}
	for i, text := range texts {
		create(t, quiet, actionID("run", fmt.Sprintf("a%d", i)), func(row *models.Action) {
			row.Phase = int32(i % 5)
			row.Attempts = uint32(i % 3)
			row.TaskName = nullable(text)
			row.TaskType = text
			row.ActionGroup = nullable(text)
		})
	}
	input := interfaces.ListResourceInput{Limit: 100, Filter: interfaces.RunScope(runID("run"))}
	all, err := quiet.ListActions(t.Context(), input)
	require.NoError(t, err)
	require.Len(t, all, len(texts))

	functions := make([]common.Filter_Function, 0, len(common.Filter_Function_name))
	for number := range common.Filter_Function_name {
		functions = append(functions, common.Filter_Function(number))
	}
	slices.Sort(functions)
	fields := []string{"name", "parent_action_name", "action_group", "task_name", "task_type", "phase", "attempts", "action_type"}
	rapid.Check(t, func(rt *rapid.T) {
		function := rapid.SampledFrom(functions).Draw(rt, "function")
		field := rapid.SampledFrom(fields).Draw(rt, "field")
		value := rapid.SampledFrom(append([]string{"a1", "a", "A", "n", "%", "_", `\`, "a0", "g"}, texts...))
		if slices.Contains([]string{"phase", "attempts", "action_type"}, field) {
			value = rapid.SampledFrom([]string{"0", "1", "2", "3"})
		}
		count := map[common.Filter_Function]int{common.Filter_EXISTS: 0, common.Filter_NOT_EXISTS: 0, common.Filter_VALUE_IN: 3, common.Filter_VALUE_NOT_IN: 3}
		n, special := count[function]
		if !special {
			n = 1
		}
		asked := &common.Filter{Field: field, Function: function, Values: rapid.SliceOfN(value, n, n).Draw(rt, "values")}

		inDatabase, err := interfaces.NewFilterFromProto(asked)
		filter, filterErr := newActionFilter([]*common.Filter{asked})
		require.Equal(rt, err == nil, filterErr == nil, "%v, %v", err, filterErr)
		if err != nil {
			return // a function of texts on a number
		}
		if slices.Contains([]common.Filter_Function{
			common.Filter_GREATER_THAN, common.Filter_GREATER_THAN_OR_EQUAL, common.Filter_LESS_THAN, common.Filter_LESS_THAN_OR_EQUAL,
		}, function) && textFields[field] != nil {
			return // above and below are the collation's business in the database, the bytes' here
		}
		input := input
		input.Filter = interfaces.And(input.Filter, inDatabase)
		rows, err := quiet.ListActions(t.Context(), input)
		require.NoError(rt, err)
		var want, got []string
		for _, row := range rows {
			want = append(want, row.Name)
		}
		for _, row := range all {
			if filter.meets(row) {
				got = append(got, row.Name)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(rt, want, got, "%v", asked)
	})
}

func TestActionFilterIsBounded(t *testing.T) {
	_, err := newActionFilter(make([]*common.Filter, maxWatchFilters+1))
	require.ErrorContains(t, err, "filter: 51 are more than 50")
	_, err = newActionFilter([]*common.Filter{{Field: "phase", Values: []string{"QUEUED"}}, {Field: "phase"}})
	require.ErrorContains(t, err, "filter[1]: values: 0 given")
}

func TestTextIsComparedByBytes(t *testing.T) {
	row := models.NewActionModel(actionID("run", "b"))
	for function, values := range map[common.Filter_Function][3]bool{ // against a, b, c
		common.Filter_GREATER_THAN:          {true, false, false},
		common.Filter_GREATER_THAN_OR_EQUAL: {true, true, false},
		common.Filter_LESS_THAN:             {false, false, true},
		common.Filter_LESS_THAN_OR_EQUAL:    {false, true, true},
	} {
		for i, value := range []string{"a", "b", "c"} {
			filter, err := newActionFilter([]*common.Filter{{Field: "name", Function: function, Values: []string{value}}})
			require.NoError(t, err)
			require.Equal(t, values[i], filter.meets(row), "b %s %s", function, value)
			// A value that is not there is neither.
			filter, err = newActionFilter([]*common.Filter{{Field: "task_name", Function: function, Values: []string{value}}})
			require.NoError(t, err)
			require.False(t, filter.meets(row))
		}
	}
}
