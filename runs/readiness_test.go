package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

func TestThePumpIsReadyWhileItSendsInTime(t *testing.T) {
	channel := interfaces.NotifyChannelStatus{Channel: "action_updates", Pending: 7, OldestAgeSeconds: 10}
	check := pumpCheck(func() interfaces.NotifyStatus {
		return interfaces.NotifyStatus{Channels: []interfaces.NotifyChannelStatus{{Channel: "run_updates"}, channel}}
	})
	require.NoError(t, check(t.Context()))

	channel.OldestAgeSeconds = 12.3
	require.EqualError(t, check(t.Context()), "action_updates: 7 changes wait to be announced, the first for 12 s: no answer yet")
	channel.Failures, channel.LastError = 3, "notify: connection refused"
	require.EqualError(t, check(t.Context()),
		"action_updates: 7 changes wait to be announced, the first for 12 s: 3 attempts failed: notify: connection refused")

	require.NoError(t, pumpCheck(func() interfaces.NotifyStatus { return interfaces.NotifyStatus{Mode: "off"} })(t.Context()))
}
