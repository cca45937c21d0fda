package impl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
)

// Every UPDATE of actions stamps the row with
//
//	updated_at = clock_timestamp()
//
// and not with CURRENT_TIMESTAMP, which is the moment the transaction began. An UPDATE that meets a locked row waits, and is then
// evaluated anew: clock_timestamp() gives the moment after the wait, CURRENT_TIMESTAMP one before it, as far back as the wait was long. A
// sweep for what changed since it last looked would miss the row if its stamp were from before that look while its commit came after; the
// shorter the way from stamp to commit, the less the sweep has to look back.

// updatePhaseSQL moves an action to a phase. GREATEST and LEAST ignore nulls: wanted where a start is unknown, kept out by the CASE where
// an end is.
var updatePhaseSQL = fmt.Sprintf(`
UPDATE actions SET
	phase = @phase,
	attempts = @attempts,
	cache_status = @cacheStatus,
	created_at = %[1]s,
	ended_at = %[2]s,
	duration_ms = %[3]s,
	updated_at = clock_timestamp()
WHERE project = @project AND domain = @domain AND run_name = @runName AND name = @name
	AND (phase <= @phase OR (phase IN (%[4]s) AND @phase > %[6]d) OR (phase = %[5]d AND @ends))`,
	createdExpr, endedExpr, millisecondsBetween(createdExpr, endedExpr),
	phaseNumbers(common.ActionPhase_ACTION_PHASE_FAILED, common.ActionPhase_ACTION_PHASE_TIMED_OUT),
	common.ActionPhase_ACTION_PHASE_PAUSED, common.ActionPhase_ACTION_PHASE_UNSPECIFIED)

const (
	createdExpr = `LEAST(created_at, CAST(@startTime AS timestamptz))`
	endedExpr   = `COALESCE(ended_at, CASE WHEN CAST(@endTime AS timestamptz) IS NOT NULL
		THEN GREATEST(CAST(@endTime AS timestamptz), ` + createdExpr + `) END)`
)

// millisecondsBetween is null when either time is.
func millisecondsBetween(from, to string) string {
	return fmt.Sprintf("TRUNC(EXTRACT(EPOCH FROM (%s) - (%s)) * 1000)::bigint", to, from)
}

func phaseNumbers(phases ...common.ActionPhase) string {
	numbers := make([]string, len(phases))
	for i, phase := range phases {
		numbers[i] = fmt.Sprint(phase.Number())
	}
	return strings.Join(numbers, ", ")
}

// endsAction tells whether phase is one that an action ends in.
func endsAction(phase common.ActionPhase) bool {
	switch phase {
	case common.ActionPhase_ACTION_PHASE_SUCCEEDED, common.ActionPhase_ACTION_PHASE_FAILED, common.ActionPhase_ACTION_PHASE_ABORTED,
		common.ActionPhase_ACTION_PHASE_TIMED_OUT, common.ActionPhase_ACTION_PHASE_RECOVERED:
		return true
	default:
		return false
	}
}

// UpdateActionPhase implements interfaces.ActionRepo.
func (r *actionRepo) UpdateActionPhase(ctx context.Context, actionID *common.ActionIdentifier, phase common.ActionPhase, attempts uint32,
	cacheStatus core.CatalogCacheStatus, endTime, startTime *time.Time,
) error {
	err := errors.Join(checkInteger("attempts", attempts), checkTime("startTime", startTime), checkTime("endTime", endTime))
	if err != nil {
		return fmt.Errorf("update phase of action %s: %w", actionKey(actionID), err)
	}
	_, err = r.updateAction(ctx, actionID, updatePhaseSQL, map[string]any{
		"phase":       int32(phase),
		"attempts":    attempts,
		"cacheStatus": int32(cacheStatus),
		"startTime":   startTime,
		"endTime":     endTime,
		"ends":        endsAction(phase),
		"project":     actionID.GetRun().GetProject(),
		"domain":      actionID.GetRun().GetDomain(),
		"runName":     actionID.GetRun().GetName(),
		"name":        actionID.GetName(),
	})
	if err != nil {
		return fmt.Errorf("update phase of action %s: %w", actionKey(actionID), err)
	}
	return nil
}

// UpdateActionDetailedInfo implements interfaces.ActionRepo.
func (r *actionRepo) UpdateActionDetailedInfo(ctx context.Context, actionID *common.ActionIdentifier, info []byte) error {
	return r.setActionColumn(ctx, actionID, "detailed_info", info)
}

// UpdateActionState implements interfaces.ActionRepo.
func (r *actionRepo) UpdateActionState(ctx context.Context, actionID *common.ActionIdentifier, state string) error {
	if !json.Valid([]byte(state)) {
		return fmt.Errorf("state of action %s: not valid JSON", actionKey(actionID))
	}
	return r.setActionColumn(ctx, actionID, "action_details", []byte(state))
}

// setActionColumn sets one column, whose name is ours, of an action that must exist.
func (r *actionRepo) setActionColumn(ctx context.Context, id *common.ActionIdentifier, column string, value []byte) error {
	rows, err := r.updateAction(ctx, id,
		"UPDATE actions SET "+column+" = ?, updated_at = clock_timestamp() WHERE "+actionCondition, append([]any{value}, actionKeyArgs(id)...)...)
	switch {
	case err != nil:
		return fmt.Errorf("update %s of action %s: %w", column, actionKey(id), err)
	case rows == 0:
		return actionNotFound(id)
	}
	return nil
}

// updateAction runs an UPDATE of one action and, if it changed a row or may have, wakes the watchers.
func (r *actionRepo) updateAction(ctx context.Context, id *common.ActionIdentifier, query string, args ...any) (rows int64, err error) {
	result := r.db.WithContext(ctx).Exec(query, args...)
	if result.Error == nil && result.RowsAffected == 0 {
		return 0, nil
	}
	announce(result.Error, func() {
		r.notifyActionUpdate(ctx, id)
		if id.GetName() == rootActionName {
			r.notifyRunUpdate(ctx, id.GetRun())
		}
	})
	return result.RowsAffected, result.Error
}

// NotifyStateUpdate implements interfaces.ActionRepo.
func (r *actionRepo) NotifyStateUpdate(ctx context.Context, actionID *common.ActionIdentifier) error {
	for _, part := range actionKeyArgs(actionID) {
		if part == "" {
			return fmt.Errorf("notify state update: identifier %q has an empty part", actionKey(actionID))
		}
	}
	r.notifyActionUpdate(ctx, actionID)
	return nil
}
