package impl

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// rootActionName is the name of the action that stands for its run.
	rootActionName = "a0"

	actionColumns = "project, domain, run_name, name, parent_action_name, phase, created_at, updated_at"

	notifySlots      = 256
	subscriberSlots  = 100
	listenerIdlePing = 90 * time.Second
)

// actionRepo is the ActionRepo on PostgreSQL. Watchers are woken by NOTIFY, across replicas.
type actionRepo struct {
	db       *sqlx.DB
	dbConfig database.DbConfig
	listener *pq.Listener

	// Fed by processNotifications.
	runSubscribers    map[chan string]bool
	actionSubscribers map[chan string]bool
	mu                sync.RWMutex // guards both maps

	// Read by runNotifyLoop, one payload at a time.
	runNotifyCh    chan string
	actionNotifyCh chan string
}

// NewActionRepo starts listening and notifying.
func NewActionRepo(db *sqlx.DB, dbConfig database.DbConfig) (interfaces.ActionRepo, error) {
	repo := &actionRepo{
		db:                db,
		dbConfig:          dbConfig,
		runSubscribers:    make(map[chan string]bool),
		actionSubscribers: make(map[chan string]bool),
		runNotifyCh:       make(chan string, notifySlots),
		actionNotifyCh:    make(chan string, notifySlots),
	}

	if err := repo.startPostgresListener(); err != nil {
		return nil, fmt.Errorf("start the listener: %w", err)
	}
	if err := repo.startNotifyLoop(); err != nil {
		return nil, fmt.Errorf("start the notify loop: %w", err)
	}

	return repo, nil
}

// GetRun reads the run's root action.
func (r *actionRepo) GetRun(ctx context.Context, runID *common.RunIdentifier) (*models.Run, error) {
	var run models.Run
	err := r.db.GetContext(ctx, &run,
		`SELECT `+actionColumns+` FROM actions WHERE project = $1 AND domain = $2 AND run_name = $3 AND parent_action_name IS NULL`,
		runID.Project, runID.Domain, runID.Name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("run not found: %s/%s/%s", runID.Project, runID.Domain, runID.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("get run: %w", err)
	}
	return &run, nil
}

// GetAction reads one action.
func (r *actionRepo) GetAction(ctx context.Context, actionID *common.ActionIdentifier) (*models.Action, error) {
	var action models.Action
	err := r.db.GetContext(ctx, &action,
		`SELECT `+actionColumns+` FROM actions WHERE project = $1 AND domain = $2 AND run_name = $3 AND name = $4`,
		actionID.Run.Project, actionID.Run.Domain, actionID.Run.Name, actionID.Name)
	if err != nil {
		return nil, fmt.Errorf("get action: %w", err)
	}
	return &action, nil
}

// CreateAction inserts the action, or gives the row that is there.
func (r *actionRepo) CreateAction(ctx context.Context, action *models.Action) (*models.Action, error) {
	id := &common.ActionIdentifier{
		Run:  &common.RunIdentifier{Project: action.Project, Domain: action.Domain, Name: action.RunName},
		Name: action.Name,
	}
	result, err := r.db.NamedExecContext(ctx,
		`INSERT INTO actions (project, domain, run_name, name, parent_action_name, phase)
		VALUES (:project, :domain, :run_name, :name, :parent_action_name, :phase) ON CONFLICT DO NOTHING`, action)
	if err != nil {
		return nil, fmt.Errorf("create action: %w", err)
	}
	if inserted, err := result.RowsAffected(); err == nil && inserted > 0 {
		r.notifyActionUpdate(ctx, id)
		if action.Name == rootActionName {
			r.notifyRunUpdate(ctx, id.Run)
		}
	}
	return r.GetAction(ctx, id)
}

// UpdateActionPhase moves the action forward.
func (r *actionRepo) UpdateActionPhase(ctx context.Context, actionID *common.ActionIdentifier, phase common.ActionPhase) error {
	result, err := r.db.ExecContext(ctx,
		`UPDATE actions SET phase = $1, updated_at = $2
		WHERE project = $3 AND domain = $4 AND run_name = $5 AND name = $6 AND phase <= $1`,
		phase, time.Now().UTC(),
		actionID.Run.Project, actionID.Run.Domain, actionID.Run.Name, actionID.Name)
	if err != nil {
		return fmt.Errorf("update action phase: %w", err)
	}
	if changed, err := result.RowsAffected(); err == nil && changed > 0 {
		r.notifyActionUpdate(ctx, actionID)
		if actionID.Name == rootActionName {
			r.notifyRunUpdate(ctx, actionID.Run)
		}
	}
	return nil
}

// AbortRun ends the run's root action.
func (r *actionRepo) AbortRun(ctx context.Context, runID *common.RunIdentifier) error {
	_, err := r.db.ExecContext(ctx,
		`UPDATE actions SET phase = $1, updated_at = $2
		WHERE project = $3 AND domain = $4 AND run_name = $5 AND parent_action_name IS NULL`,
		common.ActionPhase_ACTION_PHASE_ABORTED, time.Now().UTC(), runID.Project, runID.Domain, runID.Name)
	if err != nil {
		return fmt.Errorf("abort run: %w", err)
	}
	r.notifyRunUpdate(ctx, runID)
	r.notifyActionUpdate(ctx, &common.ActionIdentifier{Run: runID, Name: rootActionName})
	return nil
}

// NotifyStateUpdate wakes the action's watchers.
func (r *actionRepo) NotifyStateUpdate(ctx context.Context, actionID *common.ActionIdentifier) error {
	r.notifyActionUpdate(ctx, actionID)
	return nil
}

// notifyRunUpdate hands the run's key to the notify loop; it waits while the channel is full.
func (r *actionRepo) notifyRunUpdate(ctx context.Context, runID *common.RunIdentifier) {
	payload := fmt.Sprintf("%s/%s/%s", runID.Project, runID.Domain, runID.Name)
	select {
	case r.runNotifyCh <- payload:
	case <-ctx.Done():
		logger.Warnf(ctx, "run %s: nobody was told: %v", payload, ctx.Err())
	}
}

// notifyActionUpdate hands the action's key to the notify loop; it waits while the channel is full.
func (r *actionRepo) notifyActionUpdate(ctx context.Context, actionID *common.ActionIdentifier) {
	payload := fmt.Sprintf("%s/%s/%s/%s", actionID.Run.Project, actionID.Run.Domain, actionID.Run.Name, actionID.Name)
	select {
	case r.actionNotifyCh <- payload:
	case <-ctx.Done():
		logger.Warnf(ctx, "action %s: nobody was told: %v", payload, ctx.Err())
	}
}

// startNotifyLoop takes a connection out of the pool and keeps it.
func (r *actionRepo) startNotifyLoop() error {
	conn, err := r.db.Conn(context.Background())
	if err != nil {
		return fmt.Errorf("pin a connection: %w", err)
	}
	go r.runNotifyLoop(conn)
	return nil
}

// runNotifyLoop sends payloads one by one, a round trip each.
func (r *actionRepo) runNotifyLoop(conn *sql.Conn) {
	ctx := context.Background()
	drainAndExec := func(channel, payload string) {
		if _, err := conn.ExecContext(ctx, "SELECT pg_notify($1, $2)", channel, payload); err != nil {
			logger.Errorf(ctx, "notify %s: %v", channel, err)
			if !isConnError(err) {
				return
			}
			_ = conn.Close()
			fresh, err := r.db.Conn(ctx)
			if err != nil {
				logger.Errorf(ctx, "pin another connection: %v", err)
				return
			}
			conn = fresh
		}
	}
	for {
		select {
		case payload := <-r.runNotifyCh:
			drainAndExec("run_updates", payload)
		case payload := <-r.actionNotifyCh:
			drainAndExec("action_updates", payload)
		}
	}
}

// isConnError tells whether the connection is done for.
func isConnError(err error) bool {
	var netErr net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.As(err, &netErr)
}

// startPostgresListener listens on a connection of its own.
func (r *actionRepo) startPostgresListener() error {
	dsn := database.GetPostgresDsn(context.Background(), r.dbConfig.Postgres)
	r.listener = pq.NewListener(dsn, 10*time.Second, time.Minute, func(event pq.ListenerEventType, err error) {
		if err != nil {
			logger.Errorf(context.Background(), "listener event %d: %v", event, err)
		}
	})
	for _, channel := range []string{"run_updates", "action_updates"} {
		if err := r.listener.Listen(channel); err != nil {
			return fmt.Errorf("listen on %s: %w", channel, err)
		}
	}
	go r.processNotifications()
	return nil
}

// processNotifications hands what arrives to the subscribers that have room.
func (r *actionRepo) processNotifications() {
	ctx := context.Background()
	for {
		select {
		case notif := <-r.listener.Notify:
			if notif == nil {
				continue
			}
			r.mu.RLock()
			switch notif.Channel {
			case "run_updates":
				for ch := range r.runSubscribers {
					select {
					case ch <- notif.Extra:
					default:
						logger.Warnf(ctx, "a run subscriber is full: %s is dropped", notif.Extra)
					}
				}
			case "action_updates":
				for ch := range r.actionSubscribers {
					select {
					case ch <- notif.Extra:
					default:
						logger.Warnf(ctx, "an action subscriber is full: %s is dropped", notif.Extra)
					}
				}
			}
			r.mu.RUnlock()
		case <-time.After(listenerIdlePing):
			if err := r.listener.Ping(); err != nil {
				logger.Errorf(ctx, "the listener does not answer: %v", err)
				return
			}
		}
	}
}

// WatchRunUpdates sends the run each time it changed.
func (r *actionRepo) WatchRunUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Run, errs chan<- error) {
	notifyCh := make(chan string, subscriberSlots)
	r.mu.Lock()
	r.runSubscribers[notifyCh] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.runSubscribers, notifyCh)
		r.mu.Unlock()
		close(notifyCh)
	}()

	key := fmt.Sprintf("%s/%s/%s", runID.Project, runID.Domain, runID.Name)
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-notifyCh:
			if payload != key {
				continue
			}
			run, err := r.GetRun(ctx, runID)
			if err != nil {
				errs <- err
				return
			}
			updates <- run
		}
	}
}

// WatchAllRunUpdates sends every run that changed.
func (r *actionRepo) WatchAllRunUpdates(ctx context.Context, updates chan<- *models.Run, errs chan<- error) {
	notifyCh := make(chan string, subscriberSlots)
	r.mu.Lock()
	r.runSubscribers[notifyCh] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.runSubscribers, notifyCh)
		r.mu.Unlock()
		close(notifyCh)
	}()

	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-notifyCh:
			parts := strings.Split(payload, "/")
			if len(parts) != 3 {
				logger.Warnf(ctx, "not a run's key: %q", payload)
				continue
			}
			run, err := r.GetRun(ctx, &common.RunIdentifier{Project: parts[0], Domain: parts[1], Name: parts[2]})
			if err != nil {
				logger.Errorf(ctx, "read the run that changed: %v", err)
				continue
			}
			updates <- run
		}
	}
}

// WatchAllActionUpdates sends each action of the run that changed, once for what is queued.
func (r *actionRepo) WatchAllActionUpdates(ctx context.Context, runID *common.RunIdentifier, updates chan<- *models.Action, errs chan<- error) {
	notifyCh := make(chan string, subscriberSlots)
	r.mu.Lock()
	r.actionSubscribers[notifyCh] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.actionSubscribers, notifyCh)
		r.mu.Unlock()
		close(notifyCh)
	}()

	prefix := fmt.Sprintf("%s/%s/%s/", runID.Project, runID.Domain, runID.Name)
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-notifyCh:
			changed := map[string]bool{}
			for queued := true; queued; {
				if name, ours := strings.CutPrefix(payload, prefix); ours {
					changed[name] = true
				}
				select {
				case payload = <-notifyCh:
				default:
					queued = false
				}
			}
			for name := range changed {
				action, err := r.GetAction(ctx, &common.ActionIdentifier{Run: runID, Name: name})
				if err != nil {
					errs <- err
					return
				}
				updates <- action
			}
		}
	}
}

// WatchActionUpdates sends the action when it changed, once for what is queued.
func (r *actionRepo) WatchActionUpdates(ctx context.Context, actionID *common.ActionIdentifier, updates chan<- *models.Action, errs chan<- error) {
	notifyCh := make(chan string, subscriberSlots)
	r.mu.Lock()
	r.actionSubscribers[notifyCh] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.actionSubscribers, notifyCh)
		r.mu.Unlock()
		close(notifyCh)
	}()

	key := fmt.Sprintf("%s/%s/%s/%s", actionID.Run.Project, actionID.Run.Domain, actionID.Run.Name, actionID.Name)
	for {
		select {
		case <-ctx.Done():
			return
		case payload := <-notifyCh:
			ours := payload == key
			for queued := true; queued; {
				select {
				case payload = <-notifyCh:
					ours = ours || payload == key
				default:
					queued = false
				}
			}
			if !ours {
				continue
			}
			action, err := r.GetAction(ctx, actionID)
			if err != nil {
				errs <- err
				return
			}
			updates <- action
		}
	}
}
