package service

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/migrations"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// answering is a repository whose methods do what do says; those that are not overridden panic.
type answering struct {
	interfaces.ActionRepo
	do func(context.Context) error
}

func (a answering) GetAction(ctx context.Context, id *common.ActionIdentifier) (*models.Action, error) {
	return models.NewActionModel(id), a.do(ctx)
}

func (a answering) CreateAction(ctx context.Context, row *models.Action, _ bool) (*models.Action, error) {
	return row, a.do(ctx)
}

func (a answering) UpdateActionPhase(
	ctx context.Context, _ *common.ActionIdentifier, _ common.ActionPhase, _ uint32, _ core.CatalogCacheStatus, _, _ *time.Time,
) error {
	return a.do(ctx)
}

func (a answering) InsertEvents(ctx context.Context, _ []*models.ActionEvent) error { return a.do(ctx) }

func (a answering) WatchActionUpdates(ctx context.Context, _ *common.ActionIdentifier, _ chan<- *models.Action, errs chan<- error) {
	if err := a.do(ctx); err != nil {
		errs <- err
	}
}

func (a answering) ListEvents(context.Context, *common.ActionIdentifier, int) ([]*models.ActionEvent, error) {
	return nil, nil
}

func TestCodes(t *testing.T) {
	reply := func(code string) error {
		return fmt.Errorf("update action a1: %w", &pgconn.PgError{Code: code, Message: "details of the statement"})
	}
	for _, test := range []struct {
		err  error
		code connect.Code
	}{
		{fmt.Errorf("action not found: %w", sql.ErrNoRows), connect.CodeNotFound},
		{reply("22021"), connect.CodeInvalidArgument}, // NUL in a text
		{reply("22003"), connect.CodeInvalidArgument}, // number out of range
		{reply("40001"), connect.CodeAborted},
		{reply("40P01"), connect.CodeAborted},
		{reply("57P01"), connect.CodeUnavailable}, // backend killed
		{reply("57P03"), connect.CodeUnavailable}, // starting up
		{reply("53300"), connect.CodeUnavailable}, // too many connections
		{reply("08006"), connect.CodeUnavailable},
		{reply("25006"), connect.CodeUnavailable}, // read only
		{reply("42P01"), connect.CodeInternal},    // no such table
		{reply(""), connect.CodeInternal},
		{driver.ErrBadConn, connect.CodeUnavailable},
		{sql.ErrConnDone, connect.CodeUnavailable},
		{io.ErrUnexpectedEOF, connect.CodeUnavailable},
		{errors.New("sql: database is closed"), connect.CodeUnavailable},
		{errors.New("something else"), connect.CodeInternal},
		{connect.NewError(connect.CodeAlreadyExists, errors.New("known")), connect.CodeAlreadyExists},
	} {
		failure := connectError(t.Context(), "Method", test.err)
		assert.Equal(t, test.code, failure.Code(), "%v", test.err)
		if test.code != connect.CodeInvalidArgument {
			assert.NotContains(t, failure.Message(), "details of the statement")
		}
	}
}

// TestClientsReadNoneOfTheInside goes through what a request can end with, by the error and by its context.
func TestClientsReadNoneOfTheInside(t *testing.T) {
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	inside := "read action a1: failed to connect to `user=postgres database=runs`: 10.0.0.1:5432"
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), errors.New(""), "internal: internal error"},
		{t.Context(), driver.ErrBadConn, "unavailable: the database is not available"},
		{ended(errSlow(time.Second)), context.DeadlineExceeded, "unavailable: the database did not answer within 1s"},
		{t.Context(), causeOr(ended(errSlow(time.Second)), driver.ErrBadConn), "unavailable: the database did not answer within 1s"},
		{ended(context.DeadlineExceeded), context.DeadlineExceeded, "deadline_exceeded: the deadline of the request has passed"},
		{ended(context.Canceled), context.Canceled, "canceled: the request was canceled"},
		{t.Context(), &pgconn.PgError{Code: "40P01", Detail: inside}, "aborted: the request collided with another one: try again"},
		{t.Context(), &interfaces.NotFoundError{What: "run", Key: "p/d/r"}, "not_found: run not found: p/d/r"},
		{t.Context(), sql.ErrNoRows, "not_found: not found"},
	} {
		assert.EqualError(t, connectError(test.ctx, "Method", fmt.Errorf("%s: %w", inside, test.err)), test.want)
	}
}

func TestWhatIsNotThereIsNamedAndNoMore(t *testing.T) {
	server := newServer(t, newRepo(t))
	id := actionID("gone", "a7")
	watchError := func(s *connect.ServerStreamForClient[workflow.WatchRunDetailsResponse], err error) error {
		require.NoError(t, err)
		defer func() { _ = s.Close() }()
		require.False(t, s.Receive())
		return s.Err()
	}
	_, getRun := server.runs().GetRunDetails(t.Context(), connect.NewRequest(&workflow.GetRunDetailsRequest{RunId: id.Run}))
	_, getAction := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
	_, abortRun := server.runs().AbortRun(t.Context(), connect.NewRequest(&workflow.AbortRunRequest{RunId: id.Run}))
	_, abortAction := server.runs().AbortAction(t.Context(), connect.NewRequest(&workflow.AbortActionRequest{ActionId: id}))
	watchRun := watchError(server.runs().WatchRunDetails(t.Context(), connect.NewRequest(&workflow.WatchRunDetailsRequest{RunId: id.Run})))
	watchAction, err := server.runs().WatchActionDetails(t.Context(), connect.NewRequest(&workflow.WatchActionDetailsRequest{ActionId: id}))
	require.NoError(t, err)
	defer func() { _ = watchAction.Close() }()
	require.False(t, watchAction.Receive())

	for method, err := range map[string]error{"GetRunDetails": getRun, "AbortRun": abortRun, "WatchRunDetails": watchRun} {
		assert.EqualError(t, err, "not_found: run not found: proj/dev/gone", method)
	}
	for method, err := range map[string]error{"GetActionDetails": getAction, "AbortAction": abortAction, "WatchActionDetails": watchAction.Err()} {
		assert.EqualError(t, err, "not_found: action not found: proj/dev/gone/a7", method)
	}

	update := statusRequest(id, aborted)
	update.AbortReason = new("why")
	response, err := server.internal().UpdateActionStatus(t.Context(), connect.NewRequest(update))
	require.NoError(t, err)
	assert.Equal(t, "action not found: proj/dev/gone/a7", response.Msg.GetStatus().GetMessage())
}

// TestAnOutageIsFewLines fails thousands of requests of all sorts.
func TestAnOutageIsFewLines(t *testing.T) {
	log := loggedAll(t)
	log() // what other tests have left
	outage := fmt.Errorf("outage %s: %w", randomName(), driver.ErrBadConn)
	bug := fmt.Errorf("bug %s", randomName())
	procedures := []string{"/" + randomName(), "/" + randomName()}
	for i := range 1000 {
		procedure := procedures[i%2]
		require.Equal(t, connect.CodeUnavailable, connectError(t.Context(), procedure, outage).Code())
		require.EqualValues(t, connect.CodeUnavailable, inBand(t.Context(), procedure, outage).GetCode())
		require.Equal(t, connect.CodeInternal, connectError(t.Context(), procedure, bug).Code())
	}
	more := regexp.MustCompile(`and (\d+) more like it within 10s`)
	count := func(text string) (lines, failures int) {
		for line := range strings.Lines(log()) {
			if !strings.Contains(line, text) {
				continue
			}
			lines, failures = lines+1, failures+1
			if m := more.FindStringSubmatch(line); m != nil {
				n, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				failures += n
			}
		}
		return lines, failures
	}
	// The first of each kind and one for the others; room for an interval that ends just now. A bug has a kind for each method.
	lines, failures := count(outage.Error())
	assert.LessOrEqual(t, lines, 3, log())
	assert.Equal(t, 2000, failures, log())
	assert.Contains(t, log(), "a request failed for want of the database: "+procedures[0])
	lines, failures = count(bug.Error())
	assert.LessOrEqual(t, lines, 2*3, log())
	assert.Equal(t, 1000, failures, log())
}

// TestDetailsThatAreCutSaySoOnce reads an action with too many events again and again.
func TestDetailsThatAreCutSaySoOnce(t *testing.T) {
	log := logged(t)
	events := func(n int) *backend {
		return &backend{repo: manyEvents{n: n}}
	}
	key := randomName()
	read := func(n int) int {
		t.Helper()
		details, err := events(n).details(t.Context(), "org", models.NewActionModel(actionID("r", key)))
		require.NoError(t, err)
		return len(details.GetAttempts()[0].GetClusterEvents())
	}
	for range 3 {
		require.Equal(t, maxEvents, read(maxEvents))
	}
	require.NotContains(t, log(), key, "all are there")
	for range 5 {
		require.Equal(t, maxEvents, read(maxEvents+1))
	}
	require.Equal(t, 1, strings.Count(log(), key), log())
	logger.Flush()
	require.Equal(t, 2, strings.Count(log(), key), log())
	require.Contains(t, log(), "has more than 20000 events; its details leave out the last ones")
	require.Contains(t, log(), "and 3 more like it within 10m0s")
}

// manyEvents has n events, of which it gives out as many as asked for.
type manyEvents struct {
	interfaces.ActionRepo
	n int
}

func (m manyEvents) ListEvents(_ context.Context, id *common.ActionIdentifier, limit int) ([]*models.ActionEvent, error) {
	event := eventOf(id, 1, running, 0)
	event.ClusterEvents = []*workflow.ClusterEvent{{}}
	row, err := models.NewActionEventModel(event)
	return slices.Repeat([]*models.ActionEvent{row}, min(m.n, limit)), err
}

func TestInternalErrorsAreLoggedAndNotTold(t *testing.T) {
	log := loggedAll(t)
	server := newServer(t, answering{do: func(context.Context) error { return errors.New("secret detail") }})

	_, err := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: actionID("r", "a1")}))
	requireCode(t, connect.CodeInternal, err)
	require.NotContains(t, err.Error(), "secret")
	require.Contains(t, log(), "secret detail")
	require.Contains(t, log(), "RunService/GetActionDetails")

	// In band where the contract says so, with the same code and text.
	response, err := server.internal().RecordAction(t.Context(), connect.NewRequest(recordRequest(actionID("r", "a1"))))
	require.NoError(t, err)
	require.EqualValues(t, connect.CodeInternal, response.Msg.GetStatus().GetCode())
	require.Equal(t, "internal error", response.Msg.GetStatus().GetMessage())
	require.Equal(t, "a1", response.Msg.GetActionId().GetName())

	// But not by the proxy, whose response has no status.
	_, err = server.events().Record(t.Context(), connect.NewRequest(&workflow.RecordRequest{
		Events: []*workflow.ActionEvent{eventOf(actionID("r", "a1"), 1, running, 0)},
	}))
	requireCode(t, connect.CodeInternal, err)
}

func TestPanicsBecomeInternalErrors(t *testing.T) {
	log := loggedAll(t)
	server := newServer(t, answering{do: func(context.Context) error { panic("the roof is on fire") }})
	id := actionID("r", "a1")
	for method, call := range map[string]func() error{
		"GetActionDetails": func() error {
			_, err := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
			return err
		},
		"WatchActionDetails": func() error {
			stream, err := server.runs().WatchActionDetails(t.Context(), connect.NewRequest(&workflow.WatchActionDetailsRequest{ActionId: id}))
			require.NoError(t, err)
			defer func() { _ = stream.Close() }()
			require.False(t, stream.Receive())
			return stream.Err()
		},
		"RecordActionStream": func() error {
			stream := server.internal().RecordActionStream(t.Context())
			require.NoError(t, stream.Send(&workflow.RecordActionStreamRequest{Request: recordRequest(id)}))
			_, err := stream.Receive()
			require.NoError(t, stream.CloseRequest())
			require.NoError(t, stream.CloseResponse())
			return err
		},
	} {
		err := call()
		requireCode(t, connect.CodeInternal, err)
		assert.NotContains(t, err.Error(), "roof")
		var lines []string
		for line := range strings.Lines(log()) {
			if strings.Contains(line, "the roof is on fire") && strings.Contains(line, "/"+method) && strings.Contains(line, "errors_test.go") {
				lines = append(lines, line)
			}
		}
		assert.Len(t, lines, 1, "%s: one line, with the method and the stack", method)
	}
}

// TestPanicInAWatchEndsThatStreamOnly panics in a goroutine, where net/http would not catch it.
func TestPanicInAWatchEndsThatStreamOnly(t *testing.T) {
	log := loggedAll(t)
	server := newServer(t, panickingWatch{answering{do: func(context.Context) error { return nil }}})
	stream, err := server.runs().WatchActionDetails(t.Context(), connect.NewRequest(&workflow.WatchActionDetailsRequest{ActionId: actionID("r", "a1")}))
	require.NoError(t, err)
	for stream.Receive() {
		continue
	}
	requireCode(t, connect.CodeInternal, stream.Err())
	require.NoError(t, stream.Close())
	require.Contains(t, log(), "panic in a watch")

	_, err = server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: actionID("r", "a1")}))
	require.NoError(t, err)
}

type panickingWatch struct{ answering }

func (panickingWatch) WatchActionUpdates(context.Context, *common.ActionIdentifier, chan<- *models.Action, chan<- error) {
	panic("in the watch")
}

func TestNothingWaitsForTheDatabaseForEver(t *testing.T) {
	silent := answering{do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	server := newServer(t, silent, func(c *Config) { c.RequestTimeout = 50 * time.Millisecond })
	id := actionID("r", "a1")

	_, err := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
	requireCode(t, connect.CodeUnavailable, err, "did not answer within 50ms")

	response, err := server.internal().RecordAction(t.Context(), connect.NewRequest(recordRequest(id)))
	require.NoError(t, err)
	require.EqualValues(t, connect.CodeUnavailable, response.Msg.GetStatus().GetCode())
	require.Contains(t, response.Msg.GetStatus().GetMessage(), "50ms")

	stream := server.internal().RecordActionStream(t.Context())
	for range 2 { // each message has its own time
		require.NoError(t, stream.Send(&workflow.RecordActionStreamRequest{Request: recordRequest(id)}))
		answer, err := stream.Receive()
		require.NoError(t, err)
		require.EqualValues(t, connect.CodeUnavailable, answer.GetResponse().GetStatus().GetCode())
	}
	require.NoError(t, stream.CloseRequest())
	require.NoError(t, stream.CloseResponse())

	watch, err := server.runs().WatchActionDetails(t.Context(), connect.NewRequest(&workflow.WatchActionDetailsRequest{ActionId: id}))
	require.NoError(t, err)
	require.False(t, watch.Receive())
	requireCode(t, connect.CodeUnavailable, watch.Err(), "50ms")
	require.NoError(t, watch.Close())

	// The client's own deadline is told apart.
	server = newServer(t, silent)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = server.runs().GetActionDetails(ctx, connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
	requireCode(t, connect.CodeDeadlineExceeded, err)
}

func TestDatabaseAwayAndBack(t *testing.T) {
	private := dbtest.StartServer(t)
	config := private.Config()
	db, err := database.GetDB(t.Context(), &config)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	repo, err := impl.NewRepository(db, config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventually)
		defer cancel()
		_ = repo.Close(ctx)
	})
	server := newServer(t, repo.ActionRepo())
	id := actionID("r", "a0")
	record := func() (int32, error) {
		response, err := server.internal().RecordAction(t.Context(), connect.NewRequest(recordRequest(id)))
		return response.Msg.GetStatus().GetCode(), err
	}
	code, err := record()
	require.NoError(t, err)
	require.Zero(t, code)

	private.Stop(dbtest.Immediate)
	for range 3 { // connections that break first, then connections that cannot be made
		_, err = server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
		requireCode(t, connect.CodeUnavailable, err, "the database is not available")
		code, err = record()
		require.NoError(t, err)
		require.EqualValues(t, connect.CodeUnavailable, code)
	}

	private.Start()
	require.Eventually(t, func() bool {
		_, err := server.runs().GetActionDetails(t.Context(), connect.NewRequest(&workflow.GetActionDetailsRequest{ActionId: id}))
		return err == nil
	}, eventually, poll)
}

func TestRequestSizeIsBounded(t *testing.T) {
	server := newServer(t, answering{do: func(context.Context) error { return nil }}, func(c *Config) { c.MaxRequestBytes = 4096 })
	request := func(size int) *workflow.RecordActionRequest {
		r := recordRequest(actionID("r", "a1"))
		r.InputUri = strings.Repeat("x", size)
		return r
	}
	_, err := server.internal().RecordAction(t.Context(), connect.NewRequest(request(3000)))
	require.NoError(t, err)
	for protocol, options := range wireProtocols {
		_, err := server.internal(options...).RecordAction(t.Context(), connect.NewRequest(request(5000)))
		require.Error(t, err, protocol)
		requireCode(t, connect.CodeResourceExhausted, err)
	}
	// The size that counts is the one after decompression.
	_, err = server.internal(connect.WithSendGzip()).RecordAction(t.Context(), connect.NewRequest(request(1<<20)))
	requireCode(t, connect.CodeResourceExhausted, err)

	stream := server.internal().RecordActionStream(t.Context())
	require.NoError(t, stream.Send(&workflow.RecordActionStreamRequest{Request: request(10)}))
	_, err = stream.Receive()
	require.NoError(t, err)
	_ = stream.Send(&workflow.RecordActionStreamRequest{Request: request(5000)})
	_, err = stream.Receive()
	requireCode(t, connect.CodeResourceExhausted, err)
	_ = stream.CloseRequest()
	_ = stream.CloseResponse()
}

func TestGarbageIsRefused(t *testing.T) {
	server := newServer(t, nil)
	const path = "/flyteidl2.workflow.RunService/GetRunDetails"
	for contentType, body := range map[string]string{
		"application/json":  `{"runId":`,
		"application/proto": "\xff\xff\xff",
	} {
		code, answer := server.post(t, path, contentType, body)
		assert.Equal(t, http.StatusBadRequest, code)
		assert.Contains(t, answer, "invalid_argument")
	}
	code, _ := server.post(t, path, "text/plain", "hello")
	assert.Equal(t, http.StatusUnsupportedMediaType, code)

	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, err := writer.Write([]byte("{}"))
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, bytes.NewReader(zipped.Bytes()[:10]))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Content-Encoding", "gzip")
	response, err := server.http1.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusBadRequest, response.StatusCode)
}

func TestConfigNamesWhatIsOutOfBounds(t *testing.T) {
	_, err := New(Config{MaxRequestBytes: 5, StreamSendTimeout: -time.Second}, nil, nil)
	require.ErrorContains(t, err, "maxRequestBytes: 5")
	require.ErrorContains(t, err, "requestTimeout: 0s")
	require.ErrorContains(t, err, "streamSendTimeout: -1s")
	require.NoError(t, DefaultConfig().Validate())
}
