package impl

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"gorm.io/gorm"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// rootActionName is the name of a run's root action.
	rootActionName = "a0"

	runUpdatesChannel    = "run_updates"
	actionUpdatesChannel = "action_updates"

	// subscriberCapacity is how many payloads wait for one watcher.
	subscriberCapacity = 100

	// quietInterval is how long no notification may come before the listener is asked whether it is still connected.
	quietInterval = 90 * time.Second
)

// actionRepo implements interfaces.ActionRepo.
type actionRepo struct {
	// db runs each statement by itself, without a transaction around it: every write here is one statement.
	db *gorm.DB
	// sqlDB is the pool under db, for arguments that gorm would take apart.
	sqlDB *sql.DB
	dsn   string

	notify NotifyConfig
	// pump holds what is to be announced, sender the connection by which runNotifyLoop announces it. Both are nil in the modes off and serial.
	pump   *pgnotify.Pump
	sender *pgnotify.Sender
	// serial does the same in mode serial, nil in the others.
	serial *serialPump
	// abandonNotifyLoop makes runNotifyLoop give up the statement that it waits for; notifyLoopStopped is closed when it has ended.
	abandonNotifyLoop context.CancelFunc
	notifyLoopStopped chan struct{}

	listener *pgnotify.Listener
	backlog  *pgnotify.Backlog
	quiet    time.Duration

	// A subscriber is a watcher's channel. It is closed under the write lock after it was taken out, so whoever sends to it under the read
	// lock never meets a closed one.
	mu                sync.RWMutex
	runSubscribers    map[chan string]bool
	actionSubscribers map[chan string]bool
	skipLines         logger.Fold
	faultLines        logger.Fold

	// Used by readingAhead.
	joint *jointReader
	ahead watchersAhead

	done          chan struct{} // closed by Close
	fanoutStopped chan struct{} // closed when processNotifications has ended for good
	stopMeasuring func()
	closeOnce     sync.Once
	closeErr      error
}

var _ interfaces.ActionRepo = (*actionRepo)(nil)

// NewActionRepo returns the store of runs, actions and events on db, whose tables must be there. dbConfig must address the same
// database: the pump and the listener each open one connection of their own by it, outside the pool of db. Neither needs to succeed
// now: what cannot connect tries again in the background.
//
// Whoever wants to close it uses NewRepository instead.
func NewActionRepo(db *gorm.DB, dbConfig database.DbConfig, options ...Option) (interfaces.ActionRepo, error) {
	r, err := newActionRepo(db, dbConfig, options...)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func newActionRepo(db *gorm.DB, dbConfig database.DbConfig, options ...Option) (*actionRepo, error) {
	s := settings{meters: noop.NewMeterProvider()}
	for _, option := range options {
		option(&s)
	}
	s.notify = s.notify.WithDefaults()
	if err := s.notify.Validate(); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	sqlDB, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("connection pool of the action repository: %w", err)
	}

	r := &actionRepo{
		// Columns are named in each query, so that a column added by a newer release under our feet changes no result.
		db:                db.Session(&gorm.Session{NewDB: true, SkipDefaultTransaction: true, QueryFields: true}),
		sqlDB:             sqlDB,
		dsn:               database.GetPostgresDsn(context.Background(), dbConfig.Postgres),
		notify:            s.notify,
		quiet:             quietInterval,
		runSubscribers:    make(map[chan string]bool),
		actionSubscribers: make(map[chan string]bool),
		skipLines:         logger.Fold{Every: skipLinePause},
		done:              make(chan struct{}),
		fanoutStopped:     make(chan struct{}),
	}
	r.joint = newJointReader(r.fetchRows)
	if err := r.startNotifyLoop(); err != nil {
		return nil, fmt.Errorf("start notify pump: %w", err)
	}
	if err := r.startPostgresListener(); err != nil {
		return nil, fmt.Errorf("start notify listener: %w", errors.Join(err, r.closePump(context.Background())))
	}
	r.stopMeasuring = r.measure(s.meters)
	return r, nil
}

// startNotifyLoop starts what announces changes, in the configured mode. It dials nothing: a server that is away makes notifications late, not
// the start fail. Error: a DSN that cannot be parsed.
func (r *actionRepo) startNotifyLoop() (err error) {
	switch r.notify.Mode {
	case NotifyModeOff:
		return nil
	case NotifyModeSerial:
		r.serial, err = newSerialPump(cmp.Or(r.notify.PumpDSN, r.dsn))
		return err
	}

	pump, err := pgnotify.NewPump(runUpdatesChannel, actionUpdatesChannel)
	if err != nil {
		return err
	}
	sender, err := pgnotify.NewSender(pgnotify.SenderConfig{DSN: cmp.Or(r.notify.PumpDSN, r.dsn), DialTimeout: r.notify.DialTimeout, ExecTimeout: r.notify.ExecTimeout})
	if err != nil {
		return err
	}
	ctx, abandon := context.WithCancel(context.Background())
	r.pump, r.sender = pump, sender
	r.abandonNotifyLoop, r.notifyLoopStopped = abandon, make(chan struct{})
	go r.runNotifyLoop(ctx)
	return nil
}

// runNotifyLoop announces what the pump holds, until the pump is closed and flushed or the time for that is over. ctx ends the statement
// that is under way, nothing else.
func (r *actionRepo) runNotifyLoop(ctx context.Context) {
	defer close(r.notifyLoopStopped)

	// drainAndExec takes everything that waits on the channel, oldest first, and sends it in statements of up to a thousand payloads, a round
	// trip each. While it waits for the server the next batch gathers. What could not be sent goes back to the front, and the channel rests a
	// little; what PostgreSQL will never take is logged and let go.
	drainAndExec := func(channel string) {
		batch := r.pump.Take(channel)
		outcome := r.sender.Send(ctx, batch)
		r.pump.Settle(outcome)
	}

	// Sleeps until a writer adds something or a rest is over; the channels take turns.
	for channel := range r.pump.Due() {
		drainAndExec(channel)
	}
}

func (r *actionRepo) isClosed() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Close ends the pump, the listener and the fan-out, in the order in which a change passes them. See interfaces.Repository.
func (r *actionRepo) Close(ctx context.Context) error {
	r.closeOnce.Do(func() {
		err := r.closePump(ctx)
		close(r.done)
		err = errors.Join(err, r.listener.Close(ctx), awaitEnd(ctx, r.fanoutStopped, "fan-out of notifications"))
		r.joint.close()
		r.stopMeasuring()
		if err != nil {
			r.closeErr = fmt.Errorf("close action repository: %w", err)
		}
	})
	return r.closeErr
}

// closePump lets nothing new be announced and sends what waits, as far as ctx allows. Error: how much was not sent.
func (r *actionRepo) closePump(ctx context.Context) error {
	switch {
	case r.serial != nil:
		return r.serial.close(ctx)
	case r.pump == nil:
		return nil
	}
	// A server that does not answer takes all the time it gets; a tenth is left to those that are closed after the pump.
	flushCtx := ctx
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		flushCtx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/10))
		defer cancel()
	}
	_, err := r.pump.Close(flushCtx)
	if err != nil {
		err = fmt.Errorf("catch-ups of other replicas have to find what could not be announced: %w", err)
	}
	r.abandonNotifyLoop()
	<-r.notifyLoopStopped
	return errors.Join(err, r.sender.Close())
}

// awaitEnd waits until ended is closed. Error: ctx ended first.
func awaitEnd(ctx context.Context, ended <-chan struct{}, what string) error {
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended in time: %w", what, context.Cause(ctx))
	}
}

// notifyRunUpdate announces a committed change of a run. ctx is for logging only: the change is there, whatever became of the request.
func (r *actionRepo) notifyRunUpdate(ctx context.Context, runID *common.RunIdentifier) {
	r.announce(ctx, runUpdatesChannel, runKey(runID))
}

// notifyActionUpdate announces a committed change of an action. ctx is for logging only, as above.
func (r *actionRepo) notifyActionUpdate(ctx context.Context, actionID *common.ActionIdentifier) {
	r.announce(ctx, actionUpdatesChannel, actionKey(actionID))
}

// announce leaves a payload to the pump. Except in mode serial it does no I/O and waits for nothing.
func (r *actionRepo) announce(ctx context.Context, channel, payload string) {
	switch {
	case r.serial != nil:
		r.serial.notify(ctx, channel, payload)
	case r.pump != nil && !r.pump.Add(channel, payload):
		r.faultLines.Warnf(ctx, "late", "notification on %s of %q came after the end of the pump and is not sent: catch-ups of other replicas find the change",
			channel, payload)
	}
}

// runKey is the payload that names a run.
func runKey(id *common.RunIdentifier) string {
	return id.GetProject() + "/" + id.GetDomain() + "/" + id.GetName()
}

// actionKey is the payload that names an action.
func actionKey(id *common.ActionIdentifier) string {
	return runKey(id.GetRun()) + "/" + id.GetName()
}

// processNotifications offers what the listener hears to the subscribers, never waiting for any of them, until the listener turns out to be
// dead or the repository is closed.
func (r *actionRepo) processNotifications() {
	ctx := context.Background()
	for {
		select {
		case notif := <-r.listener.Notify:
			if notif == nil {
				continue
			}
			switch notif.Channel {
			case runUpdatesChannel:
				r.offer(ctx, r.runSubscribers, notif.Channel, notif.Extra)
			case actionUpdatesChannel:
				r.offer(ctx, r.actionSubscribers, notif.Channel, notif.Extra)
			}
		case <-time.After(r.quiet):
			if err := r.listener.Ping(); err != nil {
				logger.Errorf(ctx, "notify listener does not answer: %v", err)
				return
			}
		case <-r.done:
			return
		}
	}
}

// offer gives payload to every subscriber that has room for it.
func (r *actionRepo) offer(ctx context.Context, subscribers map[chan string]bool, channel, payload string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for subscriber := range subscribers {
		select {
		case subscriber <- payload:
		default:
			r.saySkipped(ctx, channel, payload)
		}
	}
}

// subscribe registers a new channel among subscribers; the returned function takes it out again and closes it.
func (r *actionRepo) subscribe(subscribers map[chan string]bool) (payloads chan string, unsubscribe func()) {
	payloads = make(chan string, subscriberCapacity)
	r.mu.Lock()
	defer r.mu.Unlock()
	subscribers[payloads] = true
	return payloads, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(subscribers, payloads)
		close(payloads)
	}
}

// WatchRunUpdates implements interfaces.ActionRepo.
func (r *actionRepo) WatchRunUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Run, errs chan<- error) {
	payloads, unsubscribe := r.subscribe(r.runSubscribers)
	defer unsubscribe()

	key := runKey(runID)
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-payloads:
			if payload != key {
				continue
			}
			run, err := r.GetRun(ctx, runID)
			if err != nil {
				send(ctx, errs, err)
				return
			}
			send(ctx, updates, run)
		}
	}
}

// WatchAllRunUpdates implements interfaces.ActionRepo.
func (r *actionRepo) WatchAllRunUpdates(ctx context.Context, updates chan<- *models.Run, _ chan<- error) {
	payloads, unsubscribe := r.subscribe(r.runSubscribers)
	defer unsubscribe()

	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-payloads:
			parts := strings.Split(payload, "/")
			if len(parts) != 3 {
				logger.Warnf(ctx, "skipping a notification on %s that names no run: %q", runUpdatesChannel, payload)
				continue
			}
			run, err := r.GetRun(ctx, &common.RunIdentifier{Project: parts[0], Domain: parts[1], Name: parts[2]})
			if ctx.Err() != nil {
				return // the watcher has left meanwhile, which is why the read failed, if it did
			}
			switch {
			case errors.Is(err, sql.ErrNoRows):
				logger.Debugf(ctx, "skipping an update: %v", err) // as in sendAction
				continue
			case err != nil:
				r.faultLines.Warnf(ctx, "unread run", "skipping an update of run %q that cannot be read, until it can: %v", payload, err)
				continue
			}
			send(ctx, updates, run)
		}
	}
}

// WatchAllActionUpdates implements interfaces.ActionRepo.
func (r *actionRepo) WatchAllActionUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Action, errs chan<- error) {
	payloads, unsubscribe := r.subscribe(r.actionSubscribers)
	defer unsubscribe()

	prefix := runKey(runID) + "/"
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-payloads:
			var changed []string // in the order in which they were first heard of
			seen := make(map[string]bool)
			for more := true; more; payload, more = takeQueued(payloads) {
				name, ours := strings.CutPrefix(payload, prefix)
				if ours && !seen[name] {
					seen[name] = true
					changed = append(changed, name)
				}
			}
			for _, name := range changed {
				if !r.sendAction(ctx, &common.ActionIdentifier{Run: runID, Name: name}, updates, errs) {
					return
				}
			}
		}
	}
}

// WatchActionUpdates implements interfaces.ActionRepo.
func (r *actionRepo) WatchActionUpdates(ctx context.Context, actionID *common.ActionIdentifier, updates chan<- *models.Action, errs chan<- error) {
	payloads, unsubscribe := r.subscribe(r.actionSubscribers)
	defer unsubscribe()

	key := actionKey(actionID)
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-payloads:
			changed := false
			for more := true; more; payload, more = takeQueued(payloads) {
				changed = changed || payload == key
			}
			if changed && !r.sendAction(ctx, actionID, updates, errs) {
				return
			}
		}
	}
}

// sendAction reads an action and sends it; it tells whether the watch goes on. An action that does not exist is no reason to end: a wake-up is
// also sent when it is unknown whether the insert was committed, and by NotifyStateUpdate.
func (r *actionRepo) sendAction(ctx context.Context, id *common.ActionIdentifier, updates chan<- *models.Action, errs chan<- error) bool {
	action, err := r.GetAction(ctx, id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		logger.Debugf(ctx, "skipping an update: %v", err)
		return true
	case err != nil:
		send(ctx, errs, err)
		return false
	}
	send(ctx, updates, action)
	return true
}

// takeQueued takes a payload if one is there.
func takeQueued(payloads <-chan string) (string, bool) {
	select {
	case payload, open := <-payloads:
		return payload, open
	default:
		return "", false
	}
}

// send waits for the receiver, or for ctx to end.
func send[T any](ctx context.Context, to chan<- T, value T) {
	select {
	case to <- value:
	case <-ctx.Done():
	}
}
