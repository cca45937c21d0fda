package runs

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/config"
)

// patience is how long a test waits for what must come; only a broken test waits that long.
const patience = 60 * time.Second

func TestMain(m *testing.M) { dbtest.Main(m) }

// testConfig is a service on free ports over an existing database.
func testConfig(db database.DbConfig) config.Config {
	cfg := config.Default()
	cfg.Server.Address = "127.0.0.1:0"
	cfg.Server.MetricsAddress = cfg.Server.Address
	cfg.Database.DbConfig = db
	return cfg
}

// process is a service that runs in the background of a test.
type process struct {
	t      *testing.T
	stop   context.CancelFunc
	ended  chan error
	out    *lockedBuffer
	log    *lockedBuffer
	client *http.Client
}

func start(t *testing.T, cfg config.Config) *process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	transport := &http.Transport{}
	s := &process{
		t: t, stop: stop, ended: make(chan error, 1), out: &lockedBuffer{}, log: &lockedBuffer{},
		client: &http.Client{Transport: transport, Timeout: patience},
	}
	require.NoError(t, logger.Setup(cfg.Logger, s.log))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ended <- Run(ctx, cfg, s.out)
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("the service did not end")
		}
		if t.Failed() {
			t.Logf("the service's log:\n%s", s.log)
		}
	})
	return s
}

// end waits for the end of Run and returns its error.
func (s *process) end() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		require.Fail(s.t, "the service did not end")
		return nil
	}
}

var rpcLine = regexp.MustCompile(`RPCs +(http://\S+)`)

// url waits until the service says where it is.
func (s *process) url() string {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return rpcLine.MatchString(s.out.String()) }, patience, 5*time.Millisecond)
	return rpcLine.FindStringSubmatch(s.out.String())[1]
}

func (s *process) get(url string) (int, string) {
	s.t.Helper()
	response, err := s.client.Get(url)
	require.NoError(s.t, err)
	return read(s.t, response)
}

func (s *process) post(url, body string) (int, string) {
	s.t.Helper()
	response, err := s.client.Post(url, "application/json", strings.NewReader(body))
	require.NoError(s.t, err)
	return read(s.t, response)
}

func read(t *testing.T, response *http.Response) (int, string) {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var curlLine = regexp.MustCompile(`curl (\S+) -H 'Content-Type: application/json' \\\n +-d '(\S+)'`)

func TestWhatTheServiceTellsToTryWorks(t *testing.T) {
	s := start(t, testConfig(dbtest.Config(t)))
	url := s.url()

	calls := curlLine.FindAllStringSubmatch(s.out.String(), -1)
	require.Len(t, calls, 2, s.out)
	var answers []string
	for _, call := range calls {
		status, answer := s.post(call[1], call[2])
		require.Equal(t, http.StatusOK, status, answer)
		answers = append(answers, answer)
	}
	assert.NotContains(t, answers[0], "message", "the status in band is OK")
	assert.Contains(t, answers[1], `"r1"`)

	status, body := s.get(url + "/readyz")
	assert.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"database":"ok"`)

	_, metrics := s.get(url + "/metrics")
	for _, want := range []string{
		`rpc_server_duration_seconds_count{rpc_method="flyteidl2.workflow.InternalRunService/RecordAction",rpc_response_status_code="OK"`,
		`go_sql_open_connections{db_name="runs"}`,
		"go_goroutines ",
	} {
		assert.Contains(t, metrics, want)
	}

	s.stop()
	require.NoError(t, s.end())
	assert.Contains(t, s.log.String(), "shutdown: done")
}

func TestAWatchEndsWhenTheServiceDoes(t *testing.T) {
	s := start(t, testConfig(dbtest.Config(t)))
	url := s.url()
	calls := curlLine.FindAllStringSubmatch(s.out.String(), -1)
	s.post(calls[0][1], calls[0][2])

	const message = `{"runId":{"org":"o","project":"p","domain":"d","name":"r1"}}`
	envelope := append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
	response, err := s.client.Post(url+"/flyteidl2.workflow.RunService/WatchRunDetails", "application/connect+json", bytes.NewReader(envelope))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	_, err = io.ReadFull(response.Body, make([]byte, 5))
	require.NoError(t, err, "the snapshot is there")

	s.stop()
	rest, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Contains(t, string(rest), `"code":"unavailable"`)
	require.NoError(t, s.end())
}

func TestTheServiceWaitsForItsDatabase(t *testing.T) {
	server := dbtest.StartServer(t)
	cfg := testConfig(server.Config())
	server.Stop(dbtest.Fast)
	cfg.Server.Address = freePort(t)
	cfg.Server.MetricsAddress = cfg.Server.Address
	s := start(t, cfg)
	url := "http://" + cfg.Server.Address

	require.Eventually(t, func() bool {
		return strings.Contains(s.log.String(), "the service waits for its database, next try in")
	}, patience, 5*time.Millisecond)
	status, _ := s.get(url + "/healthz")
	assert.Equal(t, http.StatusOK, status)
	status, body := s.get(url + "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "the setup is not done yet")
	status, body = s.post(url+"/flyteidl2.workflow.RunService/ListRuns", "{}")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "the service is starting")

	server.Start()
	require.Equal(t, url, s.url())
	status, body = s.get(url + "/readyz")
	assert.Equal(t, http.StatusOK, status, body)

	// An outage later on: alive, not ready, ready again.
	server.Stop(dbtest.Immediate)
	status, body = s.get(url + "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, `"database":"`)
	assert.NotContains(t, body, `"database":"ok"`)
	status, _ = s.get(url + "/healthz")
	assert.Equal(t, http.StatusOK, status)
	server.Start()
	require.Eventually(t, func() bool { status, _ := s.get(url + "/readyz"); return status == http.StatusOK }, patience, 50*time.Millisecond)
}

func TestAServiceThatIsWaitingIsToldToStop(t *testing.T) {
	cfg := testConfig(unreachable(t))
	s := start(t, cfg)
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "waits for its database") }, patience, 5*time.Millisecond)
	s.stop()
	require.NoError(t, s.end())
}

func TestTheWaitForTheDatabaseHasAnEnd(t *testing.T) {
	cfg := testConfig(unreachable(t))
	cfg.Database.StartTimeout = 300 * time.Millisecond
	err := start(t, cfg).end()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "setup: the database could not be reached within database.startTimeout (300ms)")
	require.ErrorContains(t, err, "connect: connection refused")
}

func TestAWrongPasswordIsNotWaitedOut(t *testing.T) {
	db := dbtest.Config(t)
	db.Postgres.Password = "guessed"
	err := start(t, testConfig(db)).end()
	require.ErrorContains(t, err, "password authentication failed")
	assert.NotContains(t, err.Error(), "guessed")
}

// unreachable is a database at a port where nobody listens.
func unreachable(t *testing.T) database.DbConfig {
	cfg := database.DefaultDbConfig()
	cfg.Postgres.Host = "127.0.0.1"
	cfg.Postgres.Port = portOf(t, freePort(t))
	return cfg
}
