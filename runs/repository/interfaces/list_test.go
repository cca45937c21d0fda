package interfaces

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

func TestListResourceInputValidate(t *testing.T) {
	now := time.Now()
	descending := SortParameter{column: "created_at", descending: true}
	byName := SortParameter{column: "name"}
	for name, test := range map[string]struct {
		input ListResourceInput
		want  string // empty: valid
	}{
		"plain":                   {ListResourceInput{Limit: 1}, ""},
		"largest":                 {ListResourceInput{Limit: MaxListLimit, Offset: 7, SortParameters: []SortParameter{descending}}, ""},
		"keyset":                  {ListResourceInput{Limit: 1, KeysetAfterCreatedAt: &now, KeysetAfterName: "a", SortParameters: KeysetOrder()}, ""},
		"no limit":                {ListResourceInput{}, "limit: 0"},
		"limit too large":         {ListResourceInput{Limit: MaxListLimit + 1}, "limit: 10001"},
		"negative offset":         {ListResourceInput{Limit: 1, Offset: -1}, "offset: -1"},
		"order from nowhere":      {ListResourceInput{Limit: 1, SortParameters: []SortParameter{{}}}, "sort parameters[0]"},
		"too many keys":           {ListResourceInput{Limit: 1, SortParameters: slices.Repeat([]SortParameter{byName}, 9)}, "sort parameters: 9"},
		"keyset without name":     {ListResourceInput{Limit: 1, KeysetAfterCreatedAt: &now, SortParameters: KeysetOrder()}, "without a name"},
		"keyset without time":     {ListResourceInput{Limit: 1, KeysetAfterName: "a", SortParameters: KeysetOrder()}, "without a created_at"},
		"keyset with offset":      {ListResourceInput{Limit: 1, Offset: 1, KeysetAfterCreatedAt: &now, KeysetAfterName: "a", SortParameters: KeysetOrder()}, "offset is 1"},
		"keyset without order":    {ListResourceInput{Limit: 1, KeysetAfterCreatedAt: &now, KeysetAfterName: "a"}, "created_at ascending"},
		"keyset, other direction": {ListResourceInput{Limit: 1, KeysetAfterCreatedAt: &now, KeysetAfterName: "a", SortParameters: []SortParameter{descending, byName}}, "created_at ascending"},
		"keyset, one key":         {ListResourceInput{Limit: 1, KeysetAfterCreatedAt: &now, KeysetAfterName: "a", SortParameters: KeysetOrder()[:1]}, "created_at ascending"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.input.Validate()
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
}

func TestSortParametersFromProto(t *testing.T) {
	key := func(key string, direction common.Sort_Direction) *common.Sort {
		return &common.Sort{Key: key, Direction: direction}
	}
	expressions := func(request *common.ListRequest) (keys []string) {
		parameters, err := NewSortParametersFromProto(request)
		require.NoError(t, err)
		for _, parameter := range parameters {
			keys = append(keys, parameter.OrderExpression())
		}
		return keys
	}
	assert.Empty(t, expressions(nil))
	assert.Equal(t, []string{"name DESC"}, expressions(&common.ListRequest{SortBy: key("name", common.Sort_DESCENDING)}))
	assert.Equal(t, []string{"phase ASC", "name DESC"}, expressions(&common.ListRequest{
		SortBy:       key("created_at", common.Sort_ASCENDING),
		SortByFields: []*common.Sort{key("phase", common.Sort_ASCENDING), key("name", common.Sort_DESCENDING)},
	}), "the fields win")

	for want, request := range map[string]*common.ListRequest{
		"sort_by.key":                {SortBy: key("run_spec", 0)},
		"sort_by.direction: 5":       {SortBy: key("name", 5)},
		"sort_by_fields[1].key":      {SortByFields: []*common.Sort{key("name", 0), key("1; --", 0)}},
		"sort_by_fields[0].key":      {SortByFields: []*common.Sort{nil}},
		"sort_by_fields: 9 are more": {SortByFields: slices.Repeat([]*common.Sort{key("name", 0)}, 9)},
	} {
		_, err := NewSortParametersFromProto(request)
		require.ErrorContains(t, err, want)
	}
}
