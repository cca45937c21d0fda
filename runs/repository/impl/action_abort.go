package impl

import (
	"context"
	"fmt"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

// abortSQL aborts an action that has not ended well. An action that FAILED or TIMED_OUT can still be aborted, since it could still be retried.
// The request's time is the statement's, so that ended_at and duration_ms agree to the microsecond; updated_at is why action_write.go says.
var abortSQL = fmt.Sprintf(`
UPDATE actions SET
	phase = %d,
	abort_requested_at = statement_timestamp(),
	abort_attempt_count = 0,
	abort_reason = ?,
	ended_at = %[2]s,
	duration_ms = %[3]s,
	updated_at = clock_timestamp()
WHERE %[4]s AND phase NOT IN (%[5]s)`,
	common.ActionPhase_ACTION_PHASE_ABORTED, abortedExpr, millisecondsBetween("created_at", abortedExpr), actionCondition,
	phaseNumbers(common.ActionPhase_ACTION_PHASE_SUCCEEDED, common.ActionPhase_ACTION_PHASE_RECOVERED))

const abortedExpr = `COALESCE(ended_at, GREATEST(statement_timestamp(), created_at))`

// AbortRun implements interfaces.ActionRepo.
func (r *actionRepo) AbortRun(ctx context.Context, runID *common.RunIdentifier, reason string, abortedBy *common.EnrichedIdentity) error {
	root, err := r.GetRun(ctx, runID)
	if err != nil {
		return fmt.Errorf("abort run: %w", err)
	}
	id := &common.ActionIdentifier{Run: runID, Name: root.Name}
	if _, err := r.abort(ctx, id, reason, abortedBy); err != nil {
		return fmt.Errorf("abort run %s: %w", runKey(runID), err)
	}
	return nil
}

// AbortAction implements interfaces.ActionRepo.
func (r *actionRepo) AbortAction(ctx context.Context, actionID *common.ActionIdentifier, reason string, abortedBy *common.EnrichedIdentity) error {
	changed, err := r.abort(ctx, actionID, reason, abortedBy)
	if err == nil && !changed {
		// Either it has ended well, or it is not there.
		_, err = r.GetAction(ctx, actionID)
	}
	if err != nil {
		return fmt.Errorf("abort action %s: %w", actionKey(actionID), err)
	}
	return nil
}

// abort tells whether it changed the action; the log tells who did it, since the table does not.
func (r *actionRepo) abort(ctx context.Context, id *common.ActionIdentifier, reason string, by *common.EnrichedIdentity) (changed bool, err error) {
	rows, err := r.updateAction(ctx, id, abortSQL, append([]any{reason}, actionKeyArgs(id)...)...)
	if err != nil || rows == 0 {
		return false, err
	}
	// Both are the client's words, of any length; the table has the reason in full.
	logger.Infof(ctx, "action %s aborted by %.200q: %.200q", actionKey(id), subjectOf(by), reason)
	return true, nil
}

func subjectOf(identity *common.EnrichedIdentity) string {
	if app := identity.GetApplication(); app != nil {
		return app.GetId().GetSubject()
	}
	return identity.GetUser().GetId().GetSubject()
}
