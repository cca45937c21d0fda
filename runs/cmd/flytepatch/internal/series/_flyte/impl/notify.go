package impl

import (
	"fmt"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

const (
	notifyChannelRuns    = "run_updates"
	notifyChannelActions = "action_updates"
)

// newNotifyPump returns a pump for both channels, which nothing drains yet.
func newNotifyPump() *pgnotify.Pump {
	pump, err := pgnotify.NewPump(notifyChannelRuns, notifyChannelActions)
	if err != nil {
		panic(fmt.Sprintf("the notification channels' names: %v", err)) // they are constants
	}
	return pump
}

// notifyRunKey is the payload that names a run.
func notifyRunKey(id *common.RunIdentifier) string {
	return fmt.Sprintf("%s/%s/%s", id.GetProject(), id.GetDomain(), id.GetName())
}

// notifyActionKey is the payload that names an action.
func notifyActionKey(id *common.ActionIdentifier) string {
	return notifyRunKey(id.GetRun()) + "/" + id.GetName()
}
