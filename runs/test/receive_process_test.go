package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs"
	"github.com/flyteorg/flyte/v2/runs/config"
)

// asProcess makes this test program the service itself, so that a test can have several processes and kill one.
const asProcess = "RUNS_TEST_AS_PROCESS"

// serveInstead is for TestMain: it serves until a signal comes when the program was started for that, and tells so.
func serveInstead() bool {
	if os.Getenv(asProcess) == "" {
		return false
	}
	_ = os.Unsetenv(asProcess) // not a setting of the service
	cfg, err := config.Load(os.Args[1:], os.Environ(), os.Stdout)
	if err == nil {
		err = runs.Run(context.Background(), cfg, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// process is a service in a process of its own.
type process struct {
	service
	cmd *exec.Cmd
}

// never keeps the search for what nobody announced out of the way of a test that is about something else.
const never = "--runs.notify.catchUpInterval=1h"

// startProcess starts a service on the database, and waits until it hears every change.
func startProcess(t *testing.T, db database.DbConfig, args ...string) *process {
	t.Helper()
	pg := db.Postgres
	p := &process{cmd: exec.Command(os.Args[0], append([]string{
		"--server.address=127.0.0.1:0", "--server.metricsAddress=",
		"--database.postgres.host=" + pg.Host, fmt.Sprint("--database.postgres.port=", pg.Port), "--database.postgres.dbname=" + pg.DbName,
		"--database.postgres.username=" + pg.User, "--database.postgres.password=" + pg.Password, "--database.postgres.options=sslmode=disable",
	}, args...)...)}
	p.cmd.Env = append(os.Environ(), asProcess+"=1")
	out := &announcement{found: make(chan string, 1)}
	var log lockedLog
	p.cmd.Stdout, p.cmd.Stderr = out, &log
	require.NoError(t, p.cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(deadline):
			_ = p.cmd.Process.Kill()
			<-ended
			t.Error("a service process did not end")
		}
		if t.Failed() {
			t.Logf("log of a service process:\n%s", log.text())
		}
	})
	select {
	case p.url = <-out.found:
	case <-ended:
		require.Fail(t, "the service process has ended", log.text())
	case <-time.After(deadline):
		require.Fail(t, "the service process did not become ready", log.text())
	}
	waitFor(t, "the service process to hear every change", func() bool { ready, _ := p.ready(t); return ready })
	return p
}

// ready asks /readyz.
func (p *process) ready(t *testing.T) (ready bool, checks map[string]string) {
	t.Helper()
	response, err := http.Get(p.url + "/readyz")
	require.NoError(t, err)
	defer response.Body.Close()
	var body struct{ Checks map[string]string }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&body))
	return response.StatusCode == http.StatusOK, body.Checks
}

type lockedLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestAWriteThroughAnyProcessReachesWatchersAtAll(t *testing.T) {
	db := dbtest.Config(t)
	const replicas = 3
	var clients []client
	for range replicas {
		clients = append(clients, startProcess(t, db, never).client(t))
	}
	ctx, run := testContext(t), runID("shared")
	require.NoError(t, clients[0].record(ctx, run, 0))
	var streams []*stream[workflow.WatchActionsResponse]
	for _, c := range clients {
		s := c.watchActions(t, run)
		s.begun(t)
		streams = append(streams, s)
	}
	const each = 50
	for i, c := range clients {
		for n := range each {
			number := 1 + i*each + n
			require.NoError(t, c.record(ctx, run, number))
			require.NoError(t, clients[(i+1)%replicas].update(ctx, run, number, succeeded))
		}
	}
	for _, s := range streams {
		s.until(t, "all actions, finished", func(messages []*workflow.WatchActionsResponse) bool {
			return shownIn(succeeded, messages) == replicas*each
		})
	}
}

// A process is killed with everything that it has committed still to be announced. The others find it in the tables.
func TestWhatAKilledProcessNeverAnnouncedIsFound(t *testing.T) {
	const n, interval = 200, 2 * time.Second
	db := dbtest.Config(t)
	proxy := startProxy(t, db, pgproxy.Options{})
	survivor := startProcess(t, db, "--runs.notify.catchUpInterval="+interval.String())
	victim := startProcess(t, behind(t, proxy, db), never)
	c, run, ctx := survivor.client(t), runID("orphaned"), testContext(t)
	require.NoError(t, c.record(ctx, run, 0))
	each(t, n, func(number int) error { return c.record(ctx, run, number) })
	s := c.watchActions(t, run)
	s.until(t, "all actions", func(messages []*workflow.WatchActionsResponse) bool { return len(latest(messages)) == n+1 })

	remove := proxy.HoldBack(func(s pgproxy.Statement) bool { return strings.HasSuffix(s.App, "notify-pump") }, time.Hour)
	defer remove()
	dying := victim.client(t)
	each(t, n, func(number int) error { return dying.update(ctx, run, number, running) })
	each(t, n, func(number int) error { return dying.update(ctx, run, number, succeeded) })
	require.NoError(t, victim.cmd.Process.Kill())
	killed := time.Now()
	s.until(t, "all actions, finished", func(messages []*workflow.WatchActionsResponse) bool { return shownIn(succeeded, messages) == n })
	t.Logf("shown %s after the kill, with an interval of %s", time.Since(killed).Round(time.Millisecond), interval)
}

// The listener's connection is half open, everything else works.
func TestReadyzTellsThatChangesAreNotHeard(t *testing.T) {
	db := dbtest.Config(t)
	proxy := startProxy(t, db, pgproxy.Options{})
	p := startProcess(t, db, never, "--runs.notify.listenDSN="+proxy.DSN(database.GetPostgresDsn(t.Context(), db.Postgres)))
	ctx, c, run := testContext(t), p.client(t), runID("half-open")
	require.NoError(t, c.record(ctx, run, 0))
	s := c.watchActions(t, run)
	s.begun(t)

	proxy.Blackhole(true)
	begin := time.Now()
	require.NoError(t, c.update(ctx, run, 0, succeeded))
	waitFor(t, "/readyz to notice", func() bool { ready, _ := p.ready(t); return !ready })
	assert.Less(t, time.Since(begin), 15*time.Second)
	_, checks := p.ready(t)
	assert.Equal(t, "ok", checks["database"])
	assert.Contains(t, checks["listener"], "changes may reach watchers late")

	proxy.Blackhole(false)
	s.until(t, "the end", func(messages []*workflow.WatchActionsResponse) bool { return shownIn(succeeded, messages) == 1 })
	waitFor(t, "/readyz to be content", func() bool { ready, _ := p.ready(t); return ready })
}

// The same with a backend that is frozen: nothing is closed, nothing answers.
func TestAFrozenListenerBackendIsReplaced(t *testing.T) {
	server := dbtest.StartServer(t)
	db := server.Config()
	p := startProcess(t, db, never)
	ctx, c, run := testContext(t), p.client(t), runID("frozen")
	require.NoError(t, c.record(ctx, run, 0))
	s := c.watchActions(t, run)
	s.begun(t)

	conn, err := pgx.Connect(ctx, server.DSN())
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var pid int
	require.NoError(t, conn.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '%notify-listener'").Scan(&pid))
	defer server.PauseBackend(pid)()
	require.NoError(t, c.update(ctx, run, 0, succeeded))
	begin := time.Now()
	s.until(t, "the end", func(messages []*workflow.WatchActionsResponse) bool { return shownIn(succeeded, messages) == 1 })
	assert.Less(t, time.Since(begin), 15*time.Second)
}
