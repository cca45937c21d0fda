package interfaces

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

const (
	// maxFilterValues bounds the values of one filter, so that one request cannot make a statement of any width.
	maxFilterValues = 100
	// maxFilters bounds the filters of one request.
	maxFilters = 50
)

// Filter is a condition on the rows of a list. Filters are immutable and may be shared. The zero value lets every row through.
type Filter struct {
	query string
	args  []any
}

// Where returns the condition as SQL with one `?` per value, and the values, in order. No value is ever part of the text; the text is
// empty for a filter that lets every row through. Columns are those of table actions, unqualified.
func (f Filter) Where() (query string, args []any) { return f.query, slices.Clone(f.args) }

// And returns the filter that asks for all of the given ones.
func And(filters ...Filter) Filter {
	var queries []string
	var args []any
	for _, f := range filters {
		if f.query == "" {
			continue
		}
		queries = append(queries, "("+f.query+")")
		args = append(args, f.args...)
	}
	return Filter{query: strings.Join(queries, " AND "), args: args}
}

// NewFiltersFromProto returns the filter that asks for all the given ones. Errors name the index of the filter at fault.
func NewFiltersFromProto(filters []*common.Filter) (Filter, error) {
	if len(filters) > maxFilters {
		return Filter{}, fmt.Errorf("filters: %d are more than %d", len(filters), maxFilters)
	}
	all := make([]Filter, 0, len(filters))
	for i, f := range filters {
		one, err := NewFilterFromProto(f)
		if err != nil {
			return Filter{}, fmt.Errorf("filters[%d]: %w", i, err)
		}
		all = append(all, one)
	}
	return And(all...), nil
}

// NewFilterFromProto returns the condition that one filter of a request asks for. Errors name the field and the bound.
func NewFilterFromProto(filter *common.Filter) (Filter, error) {
	return NewFilter(filter.GetField(), filter.GetFunction(), filter.GetValues()...)
}

// NewFilter returns the condition `function(column, values)`.
//
// How many values a function takes: EXISTS and NOT_EXISTS none, VALUE_IN and VALUE_NOT_IN 1 to 100, the others one. The functions on
// parts of a text (CONTAINS, ENDS_WITH, …) take text columns only, and every character of their value stands for itself.
//
// A row without a value in column is never EQUAL, above, below, or containing anything, and thus does match NOT_EQUAL, VALUE_NOT_IN
// and NOT_ENDS_WITH. To EXISTS an empty text is as good as none: some columns hold ” where others hold null.
func NewFilter(column string, function common.Filter_Function, values ...string) (Filter, error) {
	kind, allowed := columns[column]
	if !allowed {
		return Filter{}, fmt.Errorf("field: %.80q is not one that can be filtered by", column)
	}
	op, known := operators[function]
	if !known {
		return Filter{}, fmt.Errorf("function: %d is unknown", int32(function))
	}
	if op.textOnly && kind != textColumn {
		return Filter{}, fmt.Errorf("function: %s takes text, %s is not", function, column)
	}
	if len(values) < op.minValues || len(values) > op.maxValues {
		return Filter{}, fmt.Errorf("values: %d given, %s takes %s", len(values), function, op.arity())
	}
	args := make([]any, len(values))
	for i, value := range values {
		arg, err := kind.parse(value)
		if err != nil {
			return Filter{}, fmt.Errorf("values[%d] of %s: %w", i, column, err)
		}
		args[i] = arg
	}
	query, args := op.build(column, kind, args)
	return Filter{query: query, args: args}, nil
}

// operator is what one function of a filter becomes in SQL.
type operator struct {
	minValues, maxValues int
	textOnly             bool
	build                func(column string, kind columnType, args []any) (string, []any)
}

func (o operator) arity() string {
	switch {
	case o.maxValues == 0:
		return "none"
	case o.minValues == o.maxValues:
		return fmt.Sprintf("%d", o.minValues)
	default:
		return fmt.Sprintf("%d to %d", o.minValues, o.maxValues)
	}
}

var operators = map[common.Filter_Function]operator{
	common.Filter_EQUAL:                 comparison("="),
	common.Filter_NOT_EQUAL:             comparison("IS DISTINCT FROM"),
	common.Filter_GREATER_THAN:          comparison(">"),
	common.Filter_GREATER_THAN_OR_EQUAL: comparison(">="),
	common.Filter_LESS_THAN:             comparison("<"),
	common.Filter_LESS_THAN_OR_EQUAL:    comparison("<="),

	common.Filter_CONTAINS:                  pattern("%s LIKE ?", "%", "%"),
	common.Filter_CONTAINS_CASE_INSENSITIVE: pattern("%s ILIKE ?", "%", "%"),
	common.Filter_ENDS_WITH:                 pattern("%s LIKE ?", "%", ""),
	common.Filter_NOT_ENDS_WITH:             pattern("(%s LIKE ?) IS NOT TRUE", "%", ""),

	common.Filter_VALUE_IN:     membership("%s IN (%s)"),
	common.Filter_VALUE_NOT_IN: membership("(%s IN (%s)) IS NOT TRUE"),

	common.Filter_EXISTS:     presence("%s IS NOT NULL", "%s <> ''"),
	common.Filter_NOT_EXISTS: presence("%s IS NULL", "COALESCE(%s, '') = ''"),
}

func comparison(sign string) operator {
	return operator{minValues: 1, maxValues: 1, build: func(column string, _ columnType, args []any) (string, []any) {
		return column + " " + sign + " ?", args
	}}
}

// likeEscaper makes every character of a value stand for itself in a LIKE pattern; backslash is PostgreSQL's escape by default.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func pattern(format, before, after string) operator {
	return operator{minValues: 1, maxValues: 1, textOnly: true, build: func(column string, _ columnType, args []any) (string, []any) {
		text := args[0].(string) // textOnly
		return fmt.Sprintf(format, column), []any{before + likeEscaper.Replace(text) + after}
	}}
}

func membership(format string) operator {
	return operator{minValues: 1, maxValues: maxFilterValues, build: func(column string, _ columnType, args []any) (string, []any) {
		return fmt.Sprintf(format, column, strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")), args
	}}
}

func presence(format, textFormat string) operator {
	return operator{build: func(column string, kind columnType, _ []any) (string, []any) {
		if kind == textColumn {
			return fmt.Sprintf(textFormat, column), nil
		}
		return fmt.Sprintf(format, column), nil
	}}
}
