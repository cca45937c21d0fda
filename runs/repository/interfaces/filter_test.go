package interfaces

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

func TestEveryFunctionIsKnown(t *testing.T) {
	for number, name := range common.Filter_Function_name {
		assert.Contains(t, operators, common.Filter_Function(number), name)
	}
	assert.Len(t, operators, len(common.Filter_Function_name))
}

func TestFilterRefuses(t *testing.T) {
	many := slices.Repeat([]string{"x"}, maxFilterValues+1)
	for name, test := range map[string]struct {
		filter *common.Filter
		want   string
	}{
		"no field":               {&common.Filter{Values: []string{"x"}}, "field"},
		"unknown column":         {&common.Filter{Field: "action_spec", Values: []string{"x"}}, `field: "action_spec"`},
		"SQL for a column":       {&common.Filter{Field: "name = '' OR 1=1 --", Values: []string{"x"}}, "field"},
		"upper case":             {&common.Filter{Field: "NAME", Values: []string{"x"}}, "field"},
		"unknown function":       {&common.Filter{Field: "name", Function: 99, Values: []string{"x"}}, "function: 99"},
		"no value":               {&common.Filter{Field: "name", Function: common.Filter_EQUAL}, "values: 0 given, EQUAL takes 1"},
		"two values":             {&common.Filter{Field: "name", Function: common.Filter_LESS_THAN, Values: []string{"x", "y"}}, "values: 2 given"},
		"none of":                {&common.Filter{Field: "name", Function: common.Filter_VALUE_IN}, "VALUE_IN takes 1 to 100"},
		"too many":               {&common.Filter{Field: "name", Function: common.Filter_VALUE_NOT_IN, Values: many}, "values: 101 given"},
		"exists with a value":    {&common.Filter{Field: "name", Function: common.Filter_EXISTS, Values: []string{"x"}}, "EXISTS takes none"},
		"part of a number":       {&common.Filter{Field: "attempts", Function: common.Filter_CONTAINS, Values: []string{"1"}}, "CONTAINS takes text"},
		"not a number":           {&common.Filter{Field: "attempts", Values: []string{"many"}}, "values[0] of attempts"},
		"too large a number":     {&common.Filter{Field: "attempts", Values: []string{"3000000000"}}, "32 bits"},
		"too large for 64":       {&common.Filter{Field: "duration_ms", Values: []string{"9223372036854775808"}}, "64 bits"},
		"not a time":             {&common.Filter{Field: "created_at", Values: []string{"yesterday"}}, "values[0] of created_at"},
		"not a phase":            {&common.Filter{Field: "phase", Values: []string{"SLEEPING"}}, "values[0] of phase"},
		"not a phase's number":   {&common.Filter{Field: "phase", Values: []string{"11"}}, "11 is not the number of a phase"},
		"too long":               {&common.Filter{Field: "name", Values: []string{strings.Repeat("x", maxTextValue+1)}}, "longer than 1024"},
		"NUL":                    {&common.Filter{Field: "name", Values: []string{"a\x00"}}, "NUL"},
		"not UTF-8":              {&common.Filter{Field: "name", Function: common.Filter_CONTAINS, Values: []string{"\xff"}}, "UTF-8"},
		"the second of a set":    {&common.Filter{Field: "phase", Function: common.Filter_VALUE_IN, Values: []string{"1", "x"}}, "values[1] of phase"},
		"nothing at all given":   {nil, "field"},
		"function of old number": {&common.Filter{Field: "name", Function: 8, Values: []string{"x"}}, "function: 8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewFilterFromProto(test.filter)
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := NewFiltersFromProto([]*common.Filter{{Field: "name", Values: []string{"x"}}, {Field: "nope"}})
	require.ErrorContains(t, err, "filters[1]: field")
	_, err = NewFiltersFromProto(slices.Repeat([]*common.Filter{{Field: "name", Values: []string{"x"}}}, maxFilters+1))
	require.ErrorContains(t, err, "filters: 51 are more than 50")
}

func TestValuesAreBoundAndEscaped(t *testing.T) {
	filter, err := NewFilter("name", common.Filter_CONTAINS, `50%_\'`)
	require.NoError(t, err)
	query, args := filter.Where()
	assert.Equal(t, "name LIKE ?", query)
	assert.Equal(t, []any{`%50\%\_\\'%`}, args)

	set, err := NewFilter("phase", common.Filter_VALUE_IN, "1", "RUNNING")
	require.NoError(t, err)
	query, args = And(filter, Filter{}, set).Where()
	assert.Equal(t, "(name LIKE ?) AND (phase IN (?, ?))", query)
	assert.Equal(t, []any{`%50\%\_\\'%`, int64(1), int64(4)}, args)

	args[0] = "changed"
	_, again := And(filter).Where()
	assert.Equal(t, []any{`%50\%\_\\'%`}, again, "filters are immutable")

	query, args = And().Where()
	assert.Empty(t, query)
	assert.Empty(t, args)
}

// Whatever the value, the text of the condition holds a placeholder in its place and nothing of it.
func FuzzFilterText(f *testing.F) {
	f.Add("name", int32(6), "x")
	f.Add("phase", int32(0), "RUNNING")
	f.Add("created_at", int32(5), "2026-01-31T12:00:00Z")
	f.Add("name; --", int32(0), "'")
	f.Fuzz(func(t *testing.T, column string, function int32, value string) {
		filter, err := NewFilter(column, common.Filter_Function(function), value)
		if err != nil {
			return
		}
		query, args := filter.Where()
		reference, err := NewFilter("name", common.Filter_Function(function), "y")
		require.NoError(t, err)
		want, _ := reference.Where()
		assert.Equal(t, strings.Replace(want, "name", column, 1), query)
		assert.Len(t, args, 1)
	})
}
