package impl

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// A row's times are kept within what a message has room for, though PostgreSQL has room for more: an action that cannot be sent is no use.
var (
	earliestTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	latestTime   = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
)

// checkAction names each field of a new row that its column, or a message, has no room for.
func checkAction(action *models.Action) error {
	return errors.Join(
		checkInteger("attempts", action.Attempts),
		checkTime("createdAt", &action.CreatedAt),
		checkNullTime("endedAt", action.EndedAt),
		checkNullTime("abortRequestedAt", action.AbortRequestedAt),
	)
}

// checkTime passes nil, a time that is not given.
func checkTime(field string, at *time.Time) error {
	if at == nil || !at.Before(earliestTime) && !at.After(latestTime) {
		return nil
	}
	return fmt.Errorf("%s: %s is not within %s to %s", field,
		at.UTC().Format(time.RFC3339Nano), earliestTime.Format(time.RFC3339Nano), latestTime.Format(time.RFC3339Nano))
}

func checkNullTime(field string, at sql.NullTime) error {
	if !at.Valid {
		return nil
	}
	return checkTime(field, &at.Time)
}

// checkInteger is for a column that is signed where the message's field is not.
func checkInteger(field string, n uint32) error {
	if n > math.MaxInt32 {
		return fmt.Errorf("%s: %d is above %d", field, n, math.MaxInt32)
	}
	return nil
}
