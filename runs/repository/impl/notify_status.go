package impl

import (
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

// notifyStatus is a snapshot. It asks nobody and does not wait.
func (r *actionRepo) notifyStatus() interfaces.NotifyStatus {
	status := interfaces.NotifyStatus{Mode: string(r.notify.Mode), Listener: r.listenerStatus()}
	if r.pump == nil {
		return status
	}
	now := time.Now()
	for _, channel := range []string{runUpdatesChannel, actionUpdatesChannel} {
		status.Channels = append(status.Channels, channelStatus(channel, r.pump.Stats(channel), now))
	}
	sent := r.sender.Stats()
	status.Sender = &interfaces.NotifySenderStatus{BackendPID: sent.BackendPID, Connects: sent.Connects, Statements: sent.Statements}
	return status
}

func channelStatus(channel string, s pgnotify.ChannelStats, now time.Time) interfaces.NotifyChannelStatus {
	status := interfaces.NotifyChannelStatus{
		Channel: channel,
		Pending: s.Pending + s.InFlight, InFlight: s.InFlight,
		Added: s.Added, Coalesced: s.Coalesced, Delivered: s.Delivered, Rejected: s.Rejected, Retried: s.Requeued,
		WaitedSeconds: s.Waited.Seconds(),
		Failures:      s.Failures,
	}
	if !s.Oldest.IsZero() {
		status.OldestAgeSeconds = now.Sub(s.Oldest).Seconds()
	}
	if s.Failures > 0 {
		status.FailingForSeconds = now.Sub(s.FailingSince).Seconds()
		status.NextTryInSeconds = max(0, s.NextTry.Sub(now).Seconds())
		status.LastError = s.LastErr.Error()
	}
	return status
}

func (r *actionRepo) listenerStatus() interfaces.NotifyListenerStatus {
	s := r.listener.Stats()
	status := interfaces.NotifyListenerStatus{
		BackendPID: s.BackendPID, Connects: s.Connects, Received: s.Notifications, LagSeconds: s.Lag.Seconds(),
		CatchUps: s.CatchUps, CatchUpFailures: s.CatchUpErrors, CatchUpRows: s.CatchUpRows, CatchUpMissed: s.CatchUpMissed,
		Subscribers: s.Backlog.Subscribers, Behind: s.Backlog.Behind,
		Waiting: s.Backlog.Waiting, Kept: s.Backlog.Kept, KeptBytes: s.Backlog.Bytes,
		Lost: s.Backlog.Lost, FellBehind: s.Backlog.FellBehind, Missed: s.Backlog.Gaps,
	}
	if err := r.listener.Ready(); err != nil {
		status.Error = err.Error()
	}
	return status
}
