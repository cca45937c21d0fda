package service

import (
	"cmp"
	"database/sql"
	"maps"
	"slices"
	"strings"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// actionFilter is what a watcher of actions filters by: all conditions must hold. It does to a row in this process what
// interfaces.NewFilter, with the same functions, does in the database; text is compared byte by byte.
type actionFilter []func(*models.Action) bool

// maxWatchFilters bounds the filters of one watch, as of one list.
const maxWatchFilters = 50

// textFields and numberFields are what can be filtered by: what an action is from the beginning, and what its status is.
var (
	textFields = map[string]func(*models.Action) sql.NullString{
		"name":               func(row *models.Action) sql.NullString { return text(row.Name) },
		"parent_action_name": func(row *models.Action) sql.NullString { return row.ParentActionName },
		"action_group":       func(row *models.Action) sql.NullString { return row.ActionGroup },
		"task_project":       func(row *models.Action) sql.NullString { return row.TaskProject },
		"task_domain":        func(row *models.Action) sql.NullString { return row.TaskDomain },
		"task_name":          func(row *models.Action) sql.NullString { return row.TaskName },
		"task_version":       func(row *models.Action) sql.NullString { return row.TaskVersion },
		"task_type":          func(row *models.Action) sql.NullString { return text(row.TaskType) },
		"task_short_name":    func(row *models.Action) sql.NullString { return row.TaskShortName },
		"function_name":      func(row *models.Action) sql.NullString { return text(row.FunctionName) },
		"environment_name":   func(row *models.Action) sql.NullString { return row.EnvironmentName },
	}
	numberFields = map[string]func(*models.Action) int64{
		"phase":        func(row *models.Action) int64 { return int64(row.Phase) },
		"action_type":  func(row *models.Action) int64 { return int64(row.ActionType) },
		"attempts":     func(row *models.Action) int64 { return int64(row.Attempts) },
		"cache_status": func(row *models.Action) int64 { return int64(row.CacheStatus) },
	}
)

func text(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }

// newActionFilter returns the filter for a request's filters. Errors are the client's and name the filter's index.
func newActionFilter(filters []*common.Filter) (actionFilter, error) {
	if len(filters) > maxWatchFilters {
		return nil, invalidArgument("filter: %d are more than %d", len(filters), maxWatchFilters)
	}
	all := make(actionFilter, 0, len(filters))
	for i, filter := range filters {
		// The same rules as for lists: which functions there are, and which values they take.
		checked, err := interfaces.NewFilterFromProto(filter)
		if err != nil {
			return nil, invalidArgument("filter[%d]: %w", i, err)
		}
		if get, ok := textFields[filter.GetField()]; ok {
			all = append(all, textCondition(get, filter.GetFunction(), filter.GetValues()))
			continue
		}
		get, ok := numberFields[filter.GetField()]
		if !ok {
			return nil, invalidArgument("filter[%d]: field: a watch cannot be filtered by %q, only by %s", i, filter.GetField(), fieldNames())
		}
		all = append(all, numberCondition(get, filter.GetFunction(), numbersOf(checked)))
	}
	return all, nil
}

func (f actionFilter) meets(row *models.Action) bool {
	for _, condition := range f {
		if !condition(row) {
			return false
		}
	}
	return true
}

func fieldNames() string {
	return strings.Join(append(slices.Sorted(maps.Keys(textFields)), slices.Sorted(maps.Keys(numberFields))...), ", ")
}

// numbersOf returns the values of a filter on a column of numbers, as lists understand them, names of phases included.
func numbersOf(filter interfaces.Filter) []int64 {
	_, args := filter.Where()
	values := make([]int64, len(args))
	for i, arg := range args {
		values[i] = arg.(int64)
	}
	return values
}

func textCondition(get func(*models.Action) sql.NullString, function common.Filter_Function, values []string) func(*models.Action) bool {
	holds := func(have sql.NullString) bool {
		switch function {
		case common.Filter_CONTAINS:
			return have.Valid && strings.Contains(have.String, values[0])
		case common.Filter_CONTAINS_CASE_INSENSITIVE:
			return have.Valid && strings.Contains(strings.ToLower(have.String), strings.ToLower(values[0]))
		case common.Filter_ENDS_WITH:
			return have.Valid && strings.HasSuffix(have.String, values[0])
		case common.Filter_NOT_ENDS_WITH:
			return !have.Valid || !strings.HasSuffix(have.String, values[0])
		case common.Filter_EXISTS:
			return have.String != ""
		case common.Filter_NOT_EXISTS:
			return have.String == ""
		default:
			return compares(function, have.String, have.Valid, values)
		}
	}
	return func(row *models.Action) bool { return holds(get(row)) }
}

func numberCondition(get func(*models.Action) int64, function common.Filter_Function, values []int64) func(*models.Action) bool {
	return func(row *models.Action) bool {
		switch function {
		case common.Filter_EXISTS:
			return true
		case common.Filter_NOT_EXISTS:
			return false
		default:
			return compares(function, get(row), true, values)
		}
	}
}

// compares answers the functions that any ordered type has. A value that is not there is unequal to all, and neither above nor below.
func compares[T cmp.Ordered](function common.Filter_Function, have T, there bool, values []T) bool {
	switch function {
	case common.Filter_NOT_EQUAL, common.Filter_VALUE_NOT_IN:
		return !there || !slices.Contains(values, have)
	case common.Filter_EQUAL, common.Filter_VALUE_IN:
		return there && slices.Contains(values, have)
	case common.Filter_GREATER_THAN:
		return there && have > values[0]
	case common.Filter_GREATER_THAN_OR_EQUAL:
		return there && have >= values[0]
	case common.Filter_LESS_THAN:
		return there && have < values[0]
	case common.Filter_LESS_THAN_OR_EQUAL:
		return there && have <= values[0]
	default:
		return false
	}
}
