package impl

import (
	"fmt"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
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
