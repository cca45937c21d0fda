package impl

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// Each of the eight writes, heard by a session of its own that then finds the change committed.
func TestEveryWriteWakesAfterItsCommit(t *testing.T) {
	r := newTestRepo(t)
	ear := newEar(t, r.dsn)
	ctx := t.Context()

	run := func(id *common.ActionIdentifier) string { return runUpdatesChannel + " " + runKey(id.GetRun()) }
	action := func(id *common.ActionIdentifier) string { return actionUpdatesChannel + " " + actionKey(id) }

	tests := []struct {
		name    string
		fresh   bool // the action is not there before
		write   func(id *common.ActionIdentifier) error
		onChild bool   // works on a child too
		ofRun   bool   // wakes the run's watchers when it is the root's
		visible string // a condition that holds once the change is committed
	}{
		{"AbortRun", false, func(id *common.ActionIdentifier) error {
			return r.AbortRun(ctx, id.GetRun(), "why", nil)
		}, false, true, "abort_reason = 'why'"},
		{"InsertEvents", false, func(id *common.ActionIdentifier) error {
			return r.InsertEvents(ctx, []*models.ActionEvent{newEvent(t, id, 1, running, 0), newEvent(t, id, 1, running, 1)})
		}, true, false, "EXISTS (SELECT 1 FROM action_events e WHERE e.run_name = actions.run_name AND e.name = actions.name)"},
		{"CreateAction", true, func(id *common.ActionIdentifier) error {
			create(t, r, id)
			return nil
		}, true, true, "phase = 1"},
		{"UpdateActionPhase", false, func(id *common.ActionIdentifier) error {
			return r.UpdateActionPhase(ctx, id, running, 1, 0, nil, nil)
		}, true, true, "phase = 4"},
		{"UpdateActionDetailedInfo", false, func(id *common.ActionIdentifier) error {
			return r.UpdateActionDetailedInfo(ctx, id, []byte("info"))
		}, true, true, "detailed_info = 'info'"},
		{"AbortAction", false, func(id *common.ActionIdentifier) error {
			return r.AbortAction(ctx, id, "why", nil)
		}, true, true, "abort_reason = 'why'"},
		{"UpdateActionState", false, func(id *common.ActionIdentifier) error {
			return r.UpdateActionState(ctx, id, "{}")
		}, true, true, "action_details = '{}'"},
		{"NotifyStateUpdate", false, func(id *common.ActionIdentifier) error {
			return r.NotifyStateUpdate(ctx, id)
		}, true, false, "true"},
	}
	for _, test := range tests {
		ids := []*common.ActionIdentifier{actionID(test.name, rootActionName)}
		if test.onChild {
			ids = append(ids, actionID(test.name, "a1"))
		}
		for _, id := range ids {
			t.Run(test.name+" "+id.GetName(), func(t *testing.T) {
				isRoot := id.GetName() == rootActionName
				if !test.fresh {
					create(t, r, id)
					ear.next()
					if isRoot {
						ear.next()
					}
				}
				require.NoError(t, test.write(id))

				want := map[string]int{action(id): 1}
				if isRoot && test.ofRun {
					want[run(id)] = 1
				}
				first := ear.next()
				var visible bool
				require.NoError(t, ear.conn.QueryRow(ctx, "SELECT "+test.visible+" FROM actions WHERE run_name = $1 AND name = $2",
					id.GetRun().GetName(), id.GetName()).Scan(&visible))
				assert.True(t, visible, "announced before its commit")

				heard := ear.nextN(len(want) - 1)
				heard[first]++
				assert.Equal(t, want, heard)
				ear.silent(r)
			})
		}
	}
}

func TestNotifyStateUpdateWantsAWholeIdentifier(t *testing.T) {
	r := newTestRepo(t)
	for _, id := range []*common.ActionIdentifier{nil, {}, actionID("", "a1"), actionID("run", "")} {
		require.ErrorContains(t, r.NotifyStateUpdate(t.Context(), id), "empty part")
	}
}

func TestModeOffSendsNothing(t *testing.T) {
	config := testDbConfig(t)
	silent := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff}))
	loud := openTestRepo(t, config)
	ear := newEar(t, loud.dsn)
	create(t, silent, actionID("run", rootActionName))
	updatePhase(t, silent, actionID("run", rootActionName), running)
	ear.silent(loud)
}

func TestUnknownModeIsRefused(t *testing.T) {
	config := testDbConfig(t)
	r := openTestRepo(t, config)
	_, err := NewActionRepo(r.db, config, WithNotifyConfig(NotifyConfig{Mode: "loud"}))
	require.ErrorContains(t, err, `notify: mode: "loud"`)
	_, err = NewRepository(r.db, config, WithNotifyConfig(NotifyConfig{Mode: "loud"}))
	require.Error(t, err)
}

// A request that is gone, before its write or with the outcome open, wakes all the same where the write may be there.
func TestAWriteOfOpenOutcomeWakes(t *testing.T) {
	r := newTestRepo(t)
	ear := newEar(t, r.dsn)
	id := actionID("run", "a1")
	create(t, r, id)
	ear.next()

	holder := r.db.WithContext(t.Context()).Begin()
	require.NoError(t, holder.Error)
	require.NoError(t, holder.Exec("SELECT 1 FROM actions WHERE name = 'a1' FOR UPDATE").Error)

	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	go func() { outcome <- r.UpdateActionPhase(ctx, id, running, 1, 0, nil, nil) }()
	awaitLockWaiter(t, r)
	cancel()
	require.ErrorIs(t, <-outcome, context.Canceled)
	assert.Equal(t, actionUpdatesChannel+" "+actionKey(id), ear.next())
	require.NoError(t, holder.Rollback().Error)
}

// notSent is an error as pgx gives it for a statement that never left.
type notSent struct{ error }

func (notSent) SafeToRetry() bool { return true }

func TestMayBeCommitted(t *testing.T) {
	tests := map[string]struct {
		err  error
		want bool
	}{
		"no error":             {nil, true},
		"refused":              {&pgconn.PgError{SeverityUnlocalized: "ERROR", Severity: "FEHLER", Code: "23505"}, false},
		"refused, wrapped":     {fmt.Errorf("x: %w", &pgconn.PgError{SeverityUnlocalized: "ERROR"}), false},
		"session ended":        {&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"}, true},
		"context ended":        {context.Canceled, true},
		"connection broke":     {errors.New("unexpected EOF"), true},
		"never sent":           {notSent{errors.New("dial failed")}, false},
		"database handle gone": {sql.ErrConnDone, true},
	}
	for name, test := range tests {
		assert.Equal(t, test.want, mayBeCommitted(test.err), name)
	}
}

func TestSerialPumpMakesWritersWaitWhenFull(t *testing.T) {
	log := logged(t)
	// A port that takes connections and never says a word: the first payload stays in the pump's hands.
	p, err := newSerialPump(silentServer(t))
	require.NoError(t, err)
	canceled, cancel := context.WithCancel(t.Context())
	cancel() // what has become of the request plays no part

	p.notify(canceled, actionUpdatesChannel, "in hand")
	require.Eventually(t, func() bool { return len(p.queues[actionUpdatesChannel]) == 0 }, eventually, poll)
	for i := range serialQueueCapacity {
		p.notify(canceled, actionUpdatesChannel, fmt.Sprint(i))
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		p.notify(canceled, actionUpdatesChannel, "one too many")
	}()
	p.notify(canceled, runUpdatesChannel, "the other channel has room")
	select {
	case <-returned:
		t.Fatal("a writer did not wait for room")
	case <-time.After(100 * time.Millisecond):
	}

	ctx, cancelClose := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelClose()
	err = p.close(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, fmt.Sprintf("%d notifications not sent", serialQueueCapacity+1))
	<-returned
	assert.Contains(t, log(), "one too many")

	p.notify(t.Context(), actionUpdatesChannel, "after the end")
	assert.Contains(t, log(), "after the end")
}

func TestSerialPumpDropsWhatFailsAndGoesOn(t *testing.T) {
	r := newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: NotifyModeSerial}))
	ear := newEar(t, r.dsn)
	log := logged(t)
	p := r.serial
	ctx := t.Context()

	p.notify(ctx, actionUpdatesChannel, "with \x00 in it")
	p.notify(ctx, actionUpdatesChannel, "good")
	assert.Equal(t, actionUpdatesChannel+" good", ear.next())
	assert.Contains(t, log(), "dropping notification")

	// A killed backend costs what meets it, not what comes after.
	_, err := ear.conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE '%notify-pump'`)
	require.NoError(t, err)
	heard := make(chan string, 1)
	go func() { heard <- ear.next() }()
	for i := 0; ; i++ {
		p.notify(ctx, runUpdatesChannel, fmt.Sprint(i))
		select {
		case got := <-heard:
			assert.Contains(t, got, runUpdatesChannel)
			return
		case <-time.After(poll):
		}
	}
}

func TestSerialPumpFlushesAtClose(t *testing.T) {
	config := testDbConfig(t)
	ear := newEar(t, openTestRepo(t, config).dsn)
	r := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{Mode: NotifyModeSerial}))
	for i := range 200 {
		r.announce(t.Context(), actionUpdatesChannel, fmt.Sprint(i))
	}
	require.NoError(t, r.Close(t.Context()))
	for i := range 200 {
		require.Equal(t, fmt.Sprintf("%s %d", actionUpdatesChannel, i), ear.next())
	}
}
