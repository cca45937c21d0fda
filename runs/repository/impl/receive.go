package impl

import (
	"cmp"
	"fmt"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// startPostgresListener starts listening and the fan-out of what is heard. It dials nothing itself. Error: a setting out of its bounds, or
// a connection string that cannot be parsed.
func (r *actionRepo) startPostgresListener() error {
	backlog, err := pgnotify.NewBacklog(
		pgnotify.BacklogConfig{
			ReplayWindow: r.notify.ReplayWindow,
			MaxPayloads:  r.notify.BacklogPayloads,
			MaxBytes:     r.notify.BacklogBytes,
			OnArrival:    r.ahead.note,
		},
		map[string]pgnotify.Subscribers{
			runUpdatesChannel:    r.subscribersIn(r.runSubscribers),
			actionUpdatesChannel: r.subscribersIn(r.actionSubscribers),
		})
	if err != nil {
		return err
	}
	listener, err := pgnotify.NewListener(pgnotify.ListenerConfig{
		DSN:             cmp.Or(r.notify.ListenDSN, r.dsn),
		SenderDSN:       cmp.Or(r.notify.PumpDSN, r.dsn),
		CatchUp:         r.catchUp,
		CatchUpInterval: r.notify.CatchUpInterval,
		CatchUpOverlap:  r.notify.CatchUpOverlap,
		DialTimeout:     r.notify.DialTimeout,
		PingInterval:    r.notify.PingInterval,
		PingTimeout:     r.notify.PingTimeout,
	}, backlog)
	if err != nil {
		return err
	}
	r.listener, r.backlog = listener, backlog
	go r.superviseFanout()
	return nil
}

// superviseFanout starts processNotifications again whenever it has given up a listener that did not answer: that listener replaces
// its connection by itself, and what it hears then wants somebody to take it.
func (r *actionRepo) superviseFanout() {
	defer close(r.fanoutStopped)
	for !r.isClosed() {
		r.processNotifications()
	}
}

// subscribersIn shows one of the two sets of subscribers to the backlog.
func (r *actionRepo) subscribersIn(set map[chan string]bool) pgnotify.Subscribers {
	return func(visit func(subscriber chan string)) {
		r.mu.RLock()
		defer r.mu.RUnlock()
		for subscriber := range set {
			visit(subscriber)
		}
	}
}

// notifyReady tells whether every change reaches the watchers of this process now, and if not, why.
func (r *actionRepo) notifyReady() error {
	if err := r.listener.Ready(); err != nil {
		return fmt.Errorf("changes may reach watchers late: %w", err)
	}
	return nil
}
