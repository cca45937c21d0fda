package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/task"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
	"github.com/flyteorg/flyte/v2/runs/migrations"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const (
	// eventually bounds every wait for something that must happen; generous, for machines under load.
	eventually = 30 * time.Second
	// poll is the pause between two looks.
	poll = 5 * time.Millisecond
)

const (
	queued       = common.ActionPhase_ACTION_PHASE_QUEUED
	initializing = common.ActionPhase_ACTION_PHASE_INITIALIZING
	running      = common.ActionPhase_ACTION_PHASE_RUNNING
	succeeded    = common.ActionPhase_ACTION_PHASE_SUCCEEDED
	failed       = common.ActionPhase_ACTION_PHASE_FAILED
	aborted      = common.ActionPhase_ACTION_PHASE_ABORTED
	paused       = common.ActionPhase_ACTION_PHASE_PAUSED
)

// newRepo returns a repository on a database of the test's own, whose listener is listening.
func newRepo(t testing.TB) interfaces.ActionRepo {
	t.Helper()
	repo, _ := newRepos(t)
	return repo
}

// newRepos returns two repositories on one database of the test's own. The first is listening; the second announces nothing, for tests
// that need many rows and no wake-ups for them.
func newRepos(t testing.TB) (repo, quiet interfaces.ActionRepo) {
	t.Helper()
	config := dbtest.Config(t)
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))

	open := func(options ...impl.Option) interfaces.ActionRepo {
		repo, err := impl.NewRepository(db, config, options...)
		require.NoError(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), eventually)
			defer cancel()
			require.NoError(t, repo.Close(ctx))
		})
		return repo.ActionRepo()
	}
	repo = open()
	quiet = open(impl.WithNotifyConfig(impl.NotifyConfig{Mode: impl.NotifyModeOff}))
	awaitListening(t, repo)
	return repo, quiet
}

// awaitListening returns when a wake-up has made the whole way through PostgreSQL and back.
func awaitListening(t testing.TB, repo interfaces.ActionRepo) {
	t.Helper()
	probe := actionID("probe", "a0")
	create(t, repo, probe)
	changes := subscribe(t.Context(), func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		repo.WatchActionUpdates(ctx, probe, updates, errs)
	})
	defer changes.close()
	deadline := time.After(eventually)
	for {
		require.NoError(t, repo.NotifyStateUpdate(t.Context(), probe))
		select {
		case <-changes.updates:
			return
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatal("no wake-up arrives")
		}
	}
}

// testServer is the service behind a real HTTP server, with clients for it.
type testServer struct {
	*Service
	URL string
	// http1 and http2 speak one protocol each.
	http1, http2 *http.Client
}

func newServer(t testing.TB, repo interfaces.ActionRepo, change ...func(*Config)) *testServer {
	t.Helper()
	return newMeasuredServer(t, repo, noop.NewMeterProvider(), change...)
}

func newMeasuredServer(t testing.TB, repo interfaces.ActionRepo, meters metric.MeterProvider, change ...func(*Config)) *testServer {
	t.Helper()
	config := DefaultConfig()
	for _, c := range change {
		c(&config)
	}
	service, err := New(config, repo, meters)
	require.NoError(t, err)
	mux := http.NewServeMux()
	for _, mount := range service.Mounts() {
		mux.Handle(mount.Path, mount.Handler)
	}
	var handling sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handling.Add(1)
		defer handling.Done()
		mux.ServeHTTP(w, r)
	}))
	server.Config.Protocols = protocols(true, true)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		handling.Wait() // which Close does not do for HTTP/2
	})
	s := &testServer{Service: service, URL: server.URL, http1: client(t, protocols(true, false)), http2: client(t, protocols(false, true))}
	t.Cleanup(service.Drain)
	return s
}

func protocols(http1, http2 bool) *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(http1)
	p.SetUnencryptedHTTP2(http2)
	return &p
}

func client(t testing.TB, protocols *http.Protocols) *http.Client {
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *testServer) runs(options ...connect.ClientOption) workflowconnect.RunServiceClient {
	return workflowconnect.NewRunServiceClient(s.http2, s.URL, options...)
}

func (s *testServer) internal(options ...connect.ClientOption) workflowconnect.InternalRunServiceClient {
	return workflowconnect.NewInternalRunServiceClient(s.http2, s.URL, options...)
}

func (s *testServer) events(options ...connect.ClientOption) workflowconnect.EventsProxyServiceClient {
	return workflowconnect.NewEventsProxyServiceClient(s.http2, s.URL, options...)
}

func runID(name string) *common.RunIdentifier {
	return &common.RunIdentifier{Org: "org", Project: "proj", Domain: "dev", Name: name}
}

func actionID(run, name string) *common.ActionIdentifier {
	return &common.ActionIdentifier{Run: runID(run), Name: name}
}

func taskID() *task.TaskIdentifier {
	return &task.TaskIdentifier{Org: "org", Project: "proj", Domain: "dev", Name: "env.fn", Version: "v1"}
}

// recordRequest is a valid request for an action that executes taskID.
func recordRequest(id *common.ActionIdentifier) *workflow.RecordActionRequest {
	request := &workflow.RecordActionRequest{
		ActionId: id,
		Spec:     &workflow.RecordActionRequest_Task{Task: &workflow.TaskAction{Id: taskID()}},
	}
	if id.GetName() != rootActionName {
		request.Parent = rootActionName
	}
	return request
}

func statusRequest(id *common.ActionIdentifier, phase common.ActionPhase) *workflow.UpdateActionStatusRequest {
	return &workflow.UpdateActionStatusRequest{ActionId: id, Status: &workflow.ActionStatus{Phase: phase, Attempts: 1}}
}

var testTime = time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)

// at returns a time some seconds after testTime.
func at(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(testTime.Add(time.Duration(seconds) * time.Second))
}

func eventOf(id *common.ActionIdentifier, attempt uint32, phase common.ActionPhase, seconds int) *workflow.ActionEvent {
	return &workflow.ActionEvent{Id: id, Attempt: attempt, Phase: phase, UpdatedTime: at(seconds)}
}

// create inserts an action, a child of a0 unless it is a0, as changed by the given functions.
func create(t testing.TB, repo interfaces.ActionRepo, id *common.ActionIdentifier, change ...func(*models.Action)) *models.Action {
	t.Helper()
	row, err := newAction(recordRequest(id))
	require.NoError(t, err)
	for _, c := range change {
		c(row)
	}
	row, err = repo.CreateAction(t.Context(), row, false)
	require.NoError(t, err)
	return row
}

func setPhase(t testing.TB, repo interfaces.ActionRepo, id *common.ActionIdentifier, phase common.ActionPhase) {
	t.Helper()
	require.NoError(t, repo.UpdateActionPhase(t.Context(), id, phase, 1, 0, nil, nil))
}

func insertEvents(t testing.TB, repo interfaces.ActionRepo, events ...*workflow.ActionEvent) {
	t.Helper()
	rows, err := newEvents(events)
	require.NoError(t, err)
	require.NoError(t, repo.InsertEvents(t.Context(), rows))
}

// watching counts the watches that are open on a repository.
type watching struct {
	interfaces.ActionRepo
	open atomic.Int64
}

func (w *watching) count() func() {
	w.open.Add(1)
	return func() { w.open.Add(-1) }
}

func (w *watching) WatchRunUpdates(ctx context.Context, id *common.RunIdentifier, updates chan<- *models.Run, errs chan<- error) {
	defer w.count()()
	w.ActionRepo.WatchRunUpdates(ctx, id, updates, errs)
}

func (w *watching) WatchAllRunUpdates(ctx context.Context, updates chan<- *models.Run, errs chan<- error) {
	defer w.count()()
	w.ActionRepo.WatchAllRunUpdates(ctx, updates, errs)
}

func (w *watching) WatchAllActionUpdates(ctx context.Context, id *common.RunIdentifier, updates chan<- *models.Action, errs chan<- error) {
	defer w.count()()
	w.ActionRepo.WatchAllActionUpdates(ctx, id, updates, errs)
}

func (w *watching) WatchActionUpdates(ctx context.Context, id *common.ActionIdentifier, updates chan<- *models.Action, errs chan<- error) {
	defer w.count()()
	w.ActionRepo.WatchActionUpdates(ctx, id, updates, errs)
}

// awaitCount waits until n watches are open.
func (w *watching) awaitCount(t testing.TB, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return w.open.Load() == n }, eventually, poll, "%d watches to be open", n)
}

// requireCode asserts the code of an RPC's error, and that its message holds all texts.
func requireCode(t testing.TB, code connect.Code, err error, texts ...string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, connect.CodeOf(err), "%v", err)
	for _, text := range texts {
		assert.ErrorContains(t, err, text)
	}
}

// randomName returns a valid name that no other test uses.
func randomName() string { return rand.Text()[:20] }

// logged collects the log until the end of the test.
func logged(t testing.TB) func() string {
	t.Helper()
	var out lockedBuffer
	require.NoError(t, logger.Setup(logger.Config{Level: "debug", Format: "text"}, &out))
	t.Cleanup(func() { require.NoError(t, logger.Setup(logger.DefaultConfig(), os.Stderr)) })
	return out.String
}

// loggedAll is like logged, with what folds hold back: an earlier test may have written a line of the same kind just now.
func loggedAll(t testing.TB) func() string {
	t.Helper()
	log := logged(t)
	return func() string {
		logger.Flush()
		return log()
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
