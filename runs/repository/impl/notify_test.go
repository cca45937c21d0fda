package impl

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// Each of the eight writes, heard by a session of its own that then finds the change committed.
func TestEveryWriteWakesAfterItsCommit(t *testing.T) {
	for _, mode := range []NotifyMode{NotifyModeBatched, NotifyModeSerial} {
		t.Run(string(mode), func(t *testing.T) { testEveryWriteWakes(t, newTestRepo(t, WithNotifyConfig(NotifyConfig{Mode: mode}))) })
	}
}

func testEveryWriteWakes(t *testing.T, r *actionRepo) {
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
	assert.Equal(t, actionUpdatesChannel+" "+actionKey(id), ear.next(), "once more: the commit may have come after the first was heard")
	require.NoError(t, holder.Rollback().Error)
}

// notSent is an error as pgx gives it for a statement that never left.
type notSent struct{ error }

func (notSent) SafeToRetry() bool { return true }

func TestMayBeCommitted(t *testing.T) {
	_, noServer := pgconn.Connect(t.Context(), "host=127.0.0.1 port=1 connect_timeout=10")
	require.Error(t, noServer)
	wrongPassword, err := pgx.ParseConfig(dbtest.DSN(t))
	require.NoError(t, err)
	wrongPassword.User = "nobody"
	_, refusedSession := pgx.ConnectConfig(t.Context(), wrongPassword)
	require.Error(t, refusedSession)
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
		"no connection":        {fmt.Errorf("x: %w", noServer), false},
		"no session":           {refusedSession, false},
		"never sent":           {notSent{errors.New("dial failed")}, false},
		"database handle gone": {sql.ErrConnDone, true},
	}
	for name, test := range tests {
		assert.Equal(t, test.want, mayBeCommitted(test.err), name)
	}
}
