package interfaces

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

// columnType says how the text of a filter's value becomes what is bound to the statement.
type columnType int

const (
	textColumn columnType = iota
	integerColumn
	bigintColumn
	timeColumn
	phaseColumn
)

// columns is the allow-list: what a list may be filtered and sorted by, under the names of table actions. Nothing that a caller
// names reaches the text of a statement unless it is a key of this map.
var columns = map[string]columnType{
	"project":             textColumn,
	"domain":              textColumn,
	"run_name":            textColumn,
	"name":                textColumn,
	"parent_action_name":  textColumn,
	"phase":               phaseColumn,
	"run_source":          textColumn,
	"action_type":         integerColumn,
	"action_group":        textColumn,
	"task_project":        textColumn,
	"task_domain":         textColumn,
	"task_name":           textColumn,
	"task_version":        textColumn,
	"task_type":           textColumn,
	"task_short_name":     textColumn,
	"function_name":       textColumn,
	"environment_name":    textColumn,
	"abort_requested_at":  timeColumn,
	"abort_attempt_count": integerColumn,
	"abort_reason":        textColumn,
	"created_at":          timeColumn,
	"updated_at":          timeColumn,
	"ended_at":            timeColumn,
	"duration_ms":         bigintColumn,
	"attempts":            integerColumn,
	"cache_status":        integerColumn,
	"trigger_name":        textColumn,
	"trigger_task_name":   textColumn,
	"trigger_revision":    bigintColumn,
	"created_by_subject":  textColumn,
}

// maxTextValue bounds one value of a filter, in bytes. It is far above any name this service stores.
const maxTextValue = 1024

// parse turns the text of a value into what is bound for the column.
func (t columnType) parse(value string) (any, error) {
	switch t {
	case integerColumn:
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%.40q is not an integer within 32 bits", value)
		}
		return n, nil
	case bigintColumn:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%.40q is not an integer within 64 bits", value)
		}
		return n, nil
	case timeColumn:
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return nil, fmt.Errorf("%.40q is not a time of the form 2026-01-31T12:00:00.000001Z", value)
		}
		return at, nil
	case phaseColumn:
		return parsePhase(value)
	default:
		if len(value) > maxTextValue {
			return nil, fmt.Errorf("value of %d bytes is longer than %d", len(value), maxTextValue)
		}
		// PostgreSQL's text takes neither; refused here the error names the field instead of a byte sequence.
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("%.40q is not text: invalid UTF-8 or a NUL", value)
		}
		return value, nil
	}
}

// parsePhase takes a phase by its number, by the name of its enum value, or by what is left of that name without the prefix.
func parsePhase(value string) (any, error) {
	if n, err := strconv.ParseInt(value, 10, 32); err == nil {
		if _, known := common.ActionPhase_name[int32(n)]; !known {
			return nil, fmt.Errorf("%d is not the number of a phase", n)
		}
		return n, nil
	}
	name := strings.ToUpper(value)
	if n, known := common.ActionPhase_value[name]; known {
		return int64(n), nil
	}
	if n, known := common.ActionPhase_value["ACTION_PHASE_"+name]; known {
		return int64(n), nil
	}
	return nil, fmt.Errorf("%.40q is neither the name nor the number of a phase", value)
}

// Columns returns the names of the columns that a list can be filtered and sorted by, in no particular order.
func Columns() []string { return slices.Collect(maps.Keys(columns)) }
