package impl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/migrations"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// patience bounds a whole load, on a machine that does much else.
	patience = 4 * time.Minute
	// writers work side by side, as in the measurements that the design quotes.
	writers = 50
	// rtt is a round trip within a VPC.
	rtt = 4 * time.Millisecond
	// settleLimit is how long after the last write a watcher may still show something else. The goal is a second; it takes 0.05 s, with -race and
	// eight other processes on two cores too, as the tests log; 3 s have been seen beside a compiler.
	settleLimit = 15 * time.Second
	// backoffStep is how long the listener and the pump, when they have been killed often, may wait before they connect again.
	backoffStep = 5 * time.Second
)

// quiet keeps the log out of a test in which thousands of lines are to be expected: a skipped subscriber is a warning each time.
func quietLog(t testing.TB) {
	t.Helper()
	require.NoError(t, logger.Setup(logger.Config{Level: logger.LevelError}, io.Discard))
	t.Cleanup(func() { require.NoError(t, logger.Setup(logger.DefaultConfig(), os.Stderr)) })
}

// overNetwork is the database as it is reached through a proxy of its own.
func overNetwork(t testing.TB, config database.DbConfig, rtt time.Duration) (database.DbConfig, *pgproxy.Proxy) {
	t.Helper()
	proxy, err := pgproxy.Start(net.JoinHostPort(config.Postgres.Host, strconv.Itoa(config.Postgres.Port)), pgproxy.Options{RTT: rtt})
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	host, port, err := net.SplitHostPort(proxy.Addr())
	require.NoError(t, err)
	config.Postgres.Host = host
	config.Postgres.Port, err = strconv.Atoi(port)
	require.NoError(t, err)
	return config, proxy
}

// addActions puts n actions, a0 to a(n-1), into a run.
func addActions(t testing.TB, r *actionRepo, run string, n int) {
	t.Helper()
	require.NoError(t, r.db.Exec(`INSERT INTO actions (project, domain, run_name, name, parent_action_name, created_at, updated_at)
		SELECT 'proj', 'dev', ?, 'a' || i, CASE WHEN i > 0 THEN 'a0' END, now() - interval '1 hour', now() - interval '1 hour'
		FROM generate_series(0, ?::int - 1) AS i`, run, n).Error)
}

// gallery is what one client shows: the last phase that it was sent of each action, and when.
type gallery struct {
	t      testing.TB
	pause  atomic.Pointer[chan struct{}] // while set, the client does not read
	opened atomic.Int64                  // how often it had to open its stream

	mu       sync.Mutex
	phases   map[string]int32
	finished int
	last     time.Time // when an action was first shown as finished
}

// follow opens the stream and, when it ends with an error, opens it again; each time it then reads the state that it starts from, as
// clients do.
func follow(t testing.TB, r *actionRepo, run string, only string) *gallery {
	t.Helper()
	g := &gallery{t: t, phases: map[string]int32{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			g.stream(ctx, r, run, only)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	require.Eventually(t, func() bool { return g.opened.Load() > 0 }, eventually, poll)
	return g
}

func (g *gallery) stream(ctx context.Context, r *actionRepo, run, only string) {
	streamCtx, cancel := context.WithCancel(ctx)
	updates, errs, ended := make(chan *models.Action), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		if only != "" {
			(&readingAhead{r}).WatchActionUpdates(streamCtx, actionID(run, only), updates, errs)
		} else {
			(&readingAhead{r}).WatchAllActionUpdates(streamCtx, runID(run), updates, errs)
		}
	}()
	defer func() {
		cancel()
		<-ended
	}()
	if g.opened.Add(1) > 1 && only == "" && !g.snapshot(ctx, r, run) {
		return
	}
	for {
		if pause := g.pause.Load(); pause != nil {
			select {
			case <-*pause:
			case <-ctx.Done():
				return
			}
		}
		select {
		case action := <-updates:
			g.show(action)
		case <-errs:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (g *gallery) snapshot(ctx context.Context, r *actionRepo, run string) bool {
	filter, err := interfaces.NewFilter("run_name", common.Filter_EQUAL, run)
	require.NoError(g.t, err)
	actions, err := r.ListActions(ctx, interfaces.ListResourceInput{Limit: 10_000, Filter: filter})
	if err != nil {
		return false
	}
	for _, action := range actions {
		g.show(action)
	}
	return true
}

func (g *gallery) show(action *models.Action) {
	g.mu.Lock()
	defer g.mu.Unlock()
	done := int32(succeeded)
	if action.Phase == done && g.phases[action.Name] != done {
		g.finished++
		g.last = time.Now()
	}
	g.phases[action.Name] = action.Phase
}

func (g *gallery) count() (finished int, last time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.finished, g.last
}

// finishAll takes every action of every run through its phases, each reported by an event and a status, by as many writers as there are in all, in random order. It returns when the
// last write is done. A write that fails is repeated.
func finishAll(t testing.TB, r *actionRepo, runs, actions int) (updates int64, end time.Time) {
	t.Helper()
	order := rand.Perm(runs * actions)
	var next, written atomic.Int64
	deadline := time.Now().Add(patience)
	var working sync.WaitGroup
	for range writers {
		working.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(order)) {
					return
				}
				id := actionID(fmt.Sprint("run", order[i]%runs), fmt.Sprint("a", order[i]/runs))
				for _, phase := range []common.ActionPhase{initializing, running, succeeded} {
					write := func() error {
						err := r.InsertEvents(context.Background(), []*models.ActionEvent{newEvent(t, id, 1, phase, 0)})
						return errors.Join(err, r.UpdateActionPhase(context.Background(), id, phase, 1, 0, nil, nil))
					}
					for write() != nil {
						if time.Now().After(deadline) {
							assert.Fail(t, "writing takes for ever")
							return
						}
						time.Sleep(10 * time.Millisecond)
					}
					written.Add(1)
				}
			}
		})
	}
	working.Wait()
	return written.Load(), time.Now()
}

// settled waits until each gallery shows everything as finished, and returns how long after the last write the last one did.
func settled(t testing.TB, galleries map[*gallery]int, end time.Time) (after time.Duration) {
	t.Helper()
	for g, want := range galleries {
		require.Eventually(t, func() bool { finished, _ := g.count(); return finished == want }, patience, poll,
			"never shown as finished: %d", func() int { finished, _ := g.count(); return want - finished }())
		_, last := g.count()
		after = max(after, last.Sub(end))
	}
	return after
}

const initializing = common.ActionPhase_ACTION_PHASE_INITIALIZING

const loadRuns, loadActions, loadSingles = 5, 2000, 50

// startLoad opens a stream for each run, and for some single actions.
func startLoad(t testing.TB, r *actionRepo) map[*gallery]int {
	t.Helper()
	galleries := map[*gallery]int{}
	for run := range loadRuns {
		addActions(t, r, fmt.Sprint("run", run), loadActions)
		galleries[follow(t, r, fmt.Sprint("run", run), "")] = loadActions
	}
	for i := range loadSingles {
		galleries[follow(t, r, fmt.Sprint("run", i%loadRuns), fmt.Sprint("a", i*loadActions/loadSingles))] = 1
	}
	return galleries
}

func TestEveryWatcherSeesTheEndOfTenThousandActions(t *testing.T) {
	quietLog(t)
	config, _ := overNetwork(t, testDbConfig(t), rtt)
	r := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))
	galleries := startLoad(t, r)
	begin := time.Now()
	updates, end := finishAll(t, r, loadRuns, loadActions)
	after := settled(t, galleries, end)
	t.Logf("%d updates, %.0f/s, settled %s after the last write, %+v", updates, float64(updates)/end.Sub(begin).Seconds(), after, r.listener.Stats())
	assert.Less(t, after, settleLimit)
	stats := r.listener.Stats()
	assert.EqualValues(t, 1, stats.CatchUps, "the one at the start")
	assert.Zero(t, stats.Backlog.Lost+stats.Backlog.Gaps)
}

// The same, while the listener's and the pump's backends are killed five times a second, and the whole server restarts in the middle as after a
// crash.
func TestEveryWatcherSeesTheEndUnderFire(t *testing.T) {
	quietLog(t)
	server := dbtest.StartServer(t, dbtest.WithSettings(map[string]string{"max_connections": "300"}))
	migrated(t, server.Config())
	config, _ := overNetwork(t, server.Config(), rtt)
	r := openTestRepo(t, config, WithNotifyConfig(NotifyConfig{CatchUpInterval: far}))
	galleries := startLoad(t, r)

	stop := make(chan struct{})
	fired := make(chan int)
	go func() {
		kills, restarted := 0, false
		begin := time.Now()
		for {
			select {
			case <-stop:
				fired <- kills
				return
			case <-time.After(200 * time.Millisecond):
			}
			if !restarted && time.Since(begin) > 4*time.Second {
				restarted = true
				server.Restart(dbtest.Immediate)
				continue
			}
			var killed int
			err := r.db.Raw(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE application_name LIKE '%notify-listener' OR application_name LIKE '%notify-pump'`).Scan(&killed).Error
			if err == nil {
				kills += killed
			}
		}
	}()
	begin := time.Now()
	updates, end := finishAll(t, r, loadRuns, loadActions)
	close(stop)
	kills := <-fired
	peace := time.Now()
	after := settled(t, galleries, peace)
	t.Logf("%d updates, %.0f/s, %d backends killed, settled %s after the last kill, %+v",
		updates, float64(updates)/end.Sub(begin).Seconds(), kills, after, r.listener.Stats())
	assert.Greater(t, kills, 20)
	assert.Less(t, after, backoffStep+settleLimit)
	awaitReady(t, r)
}

// migrated brings the schema of a database up to date.
func migrated(t testing.TB, config database.DbConfig) {
	t.Helper()
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	pool, err := db.DB()
	require.NoError(t, err)
	require.NoError(t, pool.Close())
}
