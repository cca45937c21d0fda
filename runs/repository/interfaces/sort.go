package interfaces

import (
	"fmt"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

// maxSortParameters bounds the sort keys of one request.
const maxSortParameters = 8

// SortParameter is one key of a list's order. It is made by NewSortParameter, which checks the column.
type SortParameter struct {
	column     string
	descending bool
}

// Column returns the column that is sorted by.
func (p SortParameter) Column() string { return p.column }

// Descending tells the direction.
func (p SortParameter) Descending() bool { return p.descending }

// OrderExpression returns the key as it stands in ORDER BY.
func (p SortParameter) OrderExpression() string {
	if p.descending {
		return p.column + " DESC"
	}
	return p.column + " ASC"
}

// NewSortParameter returns the key for column, which must be one that a list can be sorted by.
func NewSortParameter(column string, direction common.Sort_Direction) (SortParameter, error) {
	if _, allowed := columns[column]; !allowed {
		return SortParameter{}, fmt.Errorf("key: %.80q is not one that can be sorted by", column)
	}
	switch direction {
	case common.Sort_ASCENDING:
		return SortParameter{column: column}, nil
	case common.Sort_DESCENDING:
		return SortParameter{column: column, descending: true}, nil
	default:
		return SortParameter{}, fmt.Errorf("direction: %d is unknown", int32(direction))
	}
}

// NewSortParametersFromProto returns the order that a request asks for: its sort_by_fields or, when those are empty, its sort_by.
// None asked for gives none, which stands for the default order. Errors name the field.
func NewSortParametersFromProto(request *common.ListRequest) ([]SortParameter, error) {
	fields := request.GetSortByFields()
	if len(fields) == 0 {
		if request.GetSortBy() == nil {
			return nil, nil
		}
		parameter, err := NewSortParameter(request.GetSortBy().GetKey(), request.GetSortBy().GetDirection())
		if err != nil {
			return nil, fmt.Errorf("sort_by.%w", err)
		}
		return []SortParameter{parameter}, nil
	}
	if len(fields) > maxSortParameters {
		return nil, fmt.Errorf("sort_by_fields: %d are more than %d", len(fields), maxSortParameters)
	}
	parameters := make([]SortParameter, 0, len(fields))
	for i, field := range fields {
		parameter, err := NewSortParameter(field.GetKey(), field.GetDirection())
		if err != nil {
			return nil, fmt.Errorf("sort_by_fields[%d].%w", i, err)
		}
		parameters = append(parameters, parameter)
	}
	return parameters, nil
}

// KeysetOrder returns the only order in which keyset pages can be read.
func KeysetOrder() []SortParameter {
	return []SortParameter{{column: "created_at"}, {column: "name"}}
}

// NewestFirst returns the order in which runs are read newest first, page after page: see OlderThan. No two rows are equal in it.
func NewestFirst() []SortParameter {
	return []SortParameter{
		{column: "created_at", descending: true},
		{column: "project", descending: true},
		{column: "domain", descending: true},
		{column: "run_name", descending: true},
		{column: "name", descending: true},
	}
}
