package service

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// tail reads a watch in the background. It is closed at the end of the test at the latest.
type tail[T any] struct {
	t        testing.TB
	messages chan *T
	err      error // valid once messages is closed
	stop     context.CancelFunc
}

func open[Request, Response any](
	t testing.TB, method func(context.Context, *connect.Request[Request]) (*connect.ServerStreamForClient[Response], error), request *Request,
) *tail[Response] {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := method(ctx, connect.NewRequest(request))
	require.NoError(t, err)
	w := &tail[Response]{t: t, messages: make(chan *Response, 10_000), stop: cancel}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(w.messages)
		for stream.Receive() {
			w.messages <- stream.Msg()
		}
		w.err = stream.Err()
		_ = stream.Close()
	})
	t.Cleanup(func() { cancel(); reading.Wait() })
	return w
}

// next returns the next message.
func (w *tail[T]) next() *T {
	w.t.Helper()
	select {
	case message, more := <-w.messages:
		if !more {
			require.FailNow(w.t, "the stream ended", "%v", w.err)
		}
		return message
	case <-time.After(eventually):
		require.FailNow(w.t, "no message")
		return nil
	}
}

// until reads on to the message that holds, and returns it.
func (w *tail[T]) until(holds func(*T) bool) *T {
	w.t.Helper()
	for {
		if message := w.next(); holds(message) {
			return message
		}
	}
}

// end waits for the end of the stream and returns its error.
func (w *tail[T]) end() error {
	w.t.Helper()
	deadline := time.After(eventually)
	for {
		select {
		case _, more := <-w.messages:
			if !more {
				return w.err
			}
		case <-deadline:
			require.FailNow(w.t, "the stream does not end")
		}
	}
}

func TestWatchRunDetailsShowsEveryChangeOnce(t *testing.T) {
	repo := newRepo(t)
	server := newServer(t, repo)
	root := actionID("run", "a0")
	create(t, repo, root)
	details := func(m *workflow.WatchRunDetailsResponse) *workflow.ActionDetails { return m.GetDetails().GetAction() }

	w := open(t, server.runs().WatchRunDetails, &workflow.WatchRunDetailsRequest{RunId: runID("run")})
	first := details(w.next())
	assert.Equal(t, queued, first.GetStatus().GetPhase())
	assert.Equal(t, "env.fn", first.GetMetadata().GetTask().GetId().GetName())
	assert.Equal(t, "org", first.GetId().GetRun().GetOrg())
	assert.Empty(t, first.GetAttempts())

	// A wake-up without a change is not shown: the next message is the next change.
	require.NoError(t, repo.NotifyStateUpdate(t.Context(), root))
	insertEvents(t, repo, eventOf(root, 1, running, 3))
	second := details(w.next())
	require.Len(t, second.GetAttempts(), 1)
	assert.Equal(t, running, second.GetAttempts()[0].GetPhase())

	setPhase(t, repo, root, running)
	assert.Equal(t, running, details(w.next()).GetStatus().GetPhase())

	_, err := server.runs().AbortRun(t.Context(), connect.NewRequest(&workflow.AbortRunRequest{RunId: runID("run"), Reason: proto.String("enough")}))
	require.NoError(t, err)
	last := details(w.next())
	assert.Equal(t, aborted, last.GetStatus().GetPhase())
	assert.Equal(t, "enough", last.GetAbortInfo().GetReason())

	missing := open(t, server.runs().WatchRunDetails, &workflow.WatchRunDetailsRequest{RunId: runID("missing")})
	requireCode(t, connect.CodeNotFound, missing.end(), "missing")
}

func TestWatchActionDetailsEndsWithTheLastAttempt(t *testing.T) {
	repo := newRepo(t)
	server := newServer(t, repo)
	id := actionID("run", "a1")
	create(t, repo, id)
	w := open(t, server.runs().WatchActionDetails, &workflow.WatchActionDetailsRequest{ActionId: id})
	w.next()

	update := func(phase common.ActionPhase, attempts uint32) {
		t.Helper()
		require.NoError(t, repo.UpdateActionPhase(t.Context(), id, phase, attempts, 0, nil, nil))
	}
	// The first attempt fails, which is not the end: there is a second one.
	update(running, 2)
	insertEvents(t, repo, eventOf(id, 1, running, 1), eventOf(id, 1, failed, 2), eventOf(id, 2, running, 3))
	w.until(func(m *workflow.WatchActionDetailsResponse) bool { return len(m.GetDetails().GetAttempts()) == 2 })
	// Nor are the events of the second by themselves.
	insertEvents(t, repo, eventOf(id, 2, succeeded, 4))
	w.until(func(m *workflow.WatchActionDetailsResponse) bool {
		return m.GetDetails().GetAttempts()[1].GetPhase() == succeeded && m.GetDetails().GetStatus().GetPhase() == running
	})
	update(succeeded, 2)
	last := w.next()
	assert.Equal(t, succeeded, last.GetDetails().GetStatus().GetPhase())
	require.NoError(t, w.end())

	// Of an action that is over, a watch shows the state and ends.
	again := open(t, server.runs().WatchActionDetails, &workflow.WatchActionDetailsRequest{ActionId: id})
	assert.True(t, proto.Equal(last, again.next()))
	require.NoError(t, again.end())
}

func TestWatchActionDetailsWaitsForTheOtherReport(t *testing.T) {
	attempt := func(number uint32, phase common.ActionPhase) *workflow.ActionAttempt {
		return &workflow.ActionAttempt{Attempt: number, Phase: phase}
	}
	for name, test := range map[string]struct {
		status   common.ActionPhase
		attempts uint32
		events   []*workflow.ActionAttempt
		over     time.Duration // -1: never
	}{
		"nothing":                 {queued, 0, nil, -1},
		"running":                 {running, 1, []*workflow.ActionAttempt{attempt(1, running)}, -1},
		"both":                    {succeeded, 1, []*workflow.ActionAttempt{attempt(1, succeeded)}, 0},
		"status late":             {running, 1, []*workflow.ActionAttempt{attempt(1, succeeded)}, statusGrace},
		"events late":             {succeeded, 1, []*workflow.ActionAttempt{attempt(1, running)}, eventsGrace},
		"aborted before it began": {aborted, 0, nil, eventsGrace},
		"retry to come":           {failed, 2, []*workflow.ActionAttempt{attempt(1, failed)}, eventsGrace},
		"retry begun":             {running, 2, []*workflow.ActionAttempt{attempt(1, failed), attempt(2, queued)}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := overAfter(&workflow.ActionDetails{
					Status:   &workflow.ActionStatus{Phase: test.status, Attempts: test.attempts},
					Attempts: test.events,
				})
				began := time.Now()
				select {
				case <-over:
					assert.Equal(t, test.over, time.Since(began))
				case <-time.After(time.Hour):
					assert.EqualValues(t, -1, test.over)
				}
			})
		})
	}
}

func TestWatchRunsShowsItsTargetOnly(t *testing.T) {
	repo := newRepo(t)
	server := newServer(t, repo)
	other := &common.ActionIdentifier{Run: &common.RunIdentifier{Org: "org", Project: "other", Domain: "dev", Name: "r2"}, Name: "a0"}
	create(t, repo, actionID("r1", "a0"), func(row *models.Action) { row.TaskName.String = "env.other" })
	create(t, repo, other)

	names := func(m *workflow.WatchRunsResponse) (names []string) {
		for _, run := range m.GetRuns() {
			names = append(names, run.GetAction().GetId().GetRun().GetName())
		}
		return names
	}
	all := open(t, server.runs().WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_Org{Org: "acme"}})
	project := open(t, server.runs().WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_ProjectId{
		ProjectId: &common.ProjectIdentifier{Organization: "org", Domain: "dev", Name: "proj"}}})
	byTask := open(t, server.runs().WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_TaskId{TaskId: taskID()}})
	none := open(t, server.runs().WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_ProjectId{
		ProjectId: &common.ProjectIdentifier{Organization: "org", Domain: "dev", Name: "empty"}}})

	message := all.next()
	assert.ElementsMatch(t, []string{"probe", "r1", "r2"}, names(message))
	assert.Equal(t, "acme", message.GetRuns()[0].GetAction().GetId().GetRun().GetOrg())
	assert.ElementsMatch(t, []string{"probe", "r1"}, names(project.next()))
	assert.ElementsMatch(t, []string{"probe", "r2"}, names(byTask.next()))
	assert.Empty(t, none.next().GetRuns(), "the first message comes even if there is nothing to show")

	// A new run of the project, a change of the other project's run, a change of a child: each shown where it belongs.
	create(t, repo, actionID("r3", "a0"))
	create(t, repo, actionID("r3", "a1"))
	setPhase(t, repo, actionID("r3", "a1"), running)
	setPhase(t, repo, other, running)
	setPhase(t, repo, actionID("r1", "a0"), succeeded)
	shown := func(name string, phase common.ActionPhase) func(*workflow.WatchRunsResponse) bool {
		return func(m *workflow.WatchRunsResponse) bool {
			return slices.ContainsFunc(m.GetRuns(), func(run *workflow.Run) bool {
				return run.GetAction().GetId().GetRun().GetName() == name && run.GetAction().GetStatus().GetPhase() == phase
			})
		}
	}
	// The two may come in either order, or together.
	r1, r2 := false, false
	all.until(func(m *workflow.WatchRunsResponse) bool {
		r1, r2 = r1 || shown("r1", succeeded)(m), r2 || shown("r2", running)(m)
		return r1 && r2
	})
	project.until(func(m *workflow.WatchRunsResponse) bool {
		assert.NotContains(t, names(m), "r2")
		return shown("r1", succeeded)(m)
	})
	byTask.until(func(m *workflow.WatchRunsResponse) bool {
		assert.NotContains(t, names(m), "r1")
		return shown("r2", running)(m)
	})
	assert.Empty(t, none.messages)
}

func TestWatchRunsBeginsWithAllThatHaveNotEnded(t *testing.T) {
	repo, quiet := newRepos(t)
	// An old run that waits, and after it more ended ones than are shown.
	create(t, quiet, actionID("old", "a0"), func(row *models.Action) {
		row.Phase, row.CreatedAt = int32(paused), testTime.Add(-time.Hour)
	})
	for i := range newestRuns + 5 {
		create(t, quiet, actionID(fmt.Sprintf("r%04d", i), "a0"), func(row *models.Action) {
			row.Phase, row.CreatedAt = int32(succeeded), testTime.Add(time.Duration(i)*time.Second)
		})
	}
	w := open(t, newServer(t, repo).runs().WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_ProjectId{
		ProjectId: &common.ProjectIdentifier{Organization: "org", Domain: "dev", Name: "proj"}}})
	var names []string
	for len(names) < newestRuns+1 {
		for _, run := range w.next().GetRuns() {
			names = append(names, run.GetAction().GetId().GetRun().GetName())
		}
	}
	assert.Len(t, names, newestRuns+1, "each once")
	assert.Equal(t, "old", names[newestRuns])
	assert.Equal(t, "r1004", names[1], "after probe, which awaitListening made just now")
}

func TestWatchActionsPagesThroughTheRunAndCountsChildren(t *testing.T) {
	repo, quiet := newRepos(t)
	server := newServer(t, repo)
	const children = 2*firstLookPage + 300
	create(t, quiet, actionID("run", "a0"))
	for i := range children {
		create(t, quiet, actionID("run", fmt.Sprintf("c%04d", i)), func(row *models.Action) {
			row.Phase = int32(running)
			if i%10 == 0 {
				row.Phase = int32(succeeded)
			}
			// Equal times across the pages' borders: the name decides.
			row.CreatedAt = testTime.Add(time.Duration(i/7) * time.Millisecond)
		})
	}
	w := open(t, server.runs().WatchActions, &workflow.WatchActionsRequest{RunId: runID("run")})
	shown := map[string]int{}
	var root *workflow.EnrichedAction
	for len(shown) < children+1 || root == nil {
		message := w.next()
		require.LessOrEqual(t, len(message.GetEnrichedActions()), firstLookPage+1)
		for _, action := range message.GetEnrichedActions() {
			require.True(t, action.GetMeetsFilter())
			if name := action.GetAction().GetId().GetName(); name == "a0" {
				root = action
			} else {
				require.Empty(t, action.GetChildrenPhaseCounts())
			}
			shown[action.GetAction().GetId().GetName()]++
		}
	}
	for name, times := range shown {
		if name != "a0" {
			require.Equal(t, 1, times, name)
		}
	}
	assert.Equal(t, map[int32]int32{int32(succeeded): children / 10, int32(running): children * 9 / 10}, root.GetChildrenPhaseCounts())

	// A child's change brings the child, and the parent with new numbers.
	setPhase(t, repo, actionID("run", "c0001"), succeeded)
	message := w.next()
	require.Len(t, message.GetEnrichedActions(), 2)
	assert.Equal(t, "c0001", message.GetEnrichedActions()[0].GetAction().GetId().GetName())
	assert.Equal(t, map[int32]int32{int32(succeeded): children/10 + 1, int32(running): children*9/10 - 1},
		message.GetEnrichedActions()[1].GetChildrenPhaseCounts())
}

func TestWatchActionsHonoursFilters(t *testing.T) {
	repo := newRepo(t)
	server := newServer(t, repo)
	create(t, repo, actionID("run", "a0"))
	create(t, repo, actionID("run", "task-1"))
	create(t, repo, actionID("run", "task-2"))
	setPhase(t, repo, actionID("run", "task-2"), running)

	w := open(t, server.runs().WatchActions, &workflow.WatchActionsRequest{RunId: runID("run"), Filter: []*common.Filter{
		{Field: "name", Function: common.Filter_CONTAINS, Values: []string{"task"}},
		{Field: "phase", Function: common.Filter_VALUE_IN, Values: []string{"ACTION_PHASE_RUNNING", "3"}},
	}})
	first := w.next()
	require.Len(t, first.GetEnrichedActions(), 1)
	assert.Equal(t, "task-2", first.GetEnrichedActions()[0].GetAction().GetId().GetName())

	expect := func(name string, phase common.ActionPhase, meets bool) {
		t.Helper()
		message := w.next()
		require.Len(t, message.GetEnrichedActions(), 1)
		action := message.GetEnrichedActions()[0]
		assert.Equal(t, name, action.GetAction().GetId().GetName())
		assert.Equal(t, phase, action.GetAction().GetStatus().GetPhase())
		assert.Equal(t, meets, action.GetMeetsFilter())
	}
	setPhase(t, repo, actionID("run", "task-1"), initializing) // begins to meet it
	expect("task-1", initializing, true)
	setPhase(t, repo, actionID("run", "task-2"), failed) // meets it no longer: told once
	expect("task-2", failed, false)
	require.NoError(t, repo.AbortAction(t.Context(), actionID("run", "task-2"), "", nil)) // not shown again
	setPhase(t, repo, actionID("run", "a0"), running)                                     // never shown
	setPhase(t, repo, actionID("run", "task-1"), running)
	expect("task-1", running, true)

	bad := open(t, server.runs().WatchActions, &workflow.WatchActionsRequest{RunId: runID("run"), Filter: []*common.Filter{{Field: "created_at",
		Values: []string{"2026-01-01T00:00:00Z"}}}})
	requireCode(t, connect.CodeInvalidArgument, bad.end(), "filter[0]", "created_at", "phase")
}

func TestWatchActionsOfARunThatIsYetToCome(t *testing.T) {
	repo := newRepo(t)
	server := newServer(t, repo)
	w := open(t, server.runs().WatchActions, &workflow.WatchActionsRequest{RunId: runID("later")})
	assert.Empty(t, w.next().GetEnrichedActions())
	create(t, repo, actionID("later", "a0"))
	assert.Equal(t, "a0", w.next().GetEnrichedActions()[0].GetAction().GetId().GetName())
}

// TestClientsThatGoAwayFreeEverything opens many watches of every kind and lets the clients vanish.
func TestClientsThatGoAwayFreeEverything(t *testing.T) {
	repo := &watching{ActionRepo: newRepo(t)}
	server := newServer(t, repo)
	create(t, repo, actionID("run", "a0"))
	id, project := actionID("run", "a0"), &common.ProjectIdentifier{Organization: "org", Domain: "dev", Name: "proj"}

	const each = 10
	for name, transport := range map[string]*http.Client{"http1": server.http1, "http2": server.http2} {
		t.Run(name, func(t *testing.T) {
			client := workflowconnect.NewRunServiceClient(transport, server.URL)
			openAll := func(t *testing.T, n int) (leave []func()) {
				for range n {
					a := open(t, client.WatchRunDetails, &workflow.WatchRunDetailsRequest{RunId: runID("run")})
					b := open(t, client.WatchActionDetails, &workflow.WatchActionDetailsRequest{ActionId: id})
					c := open(t, client.WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_ProjectId{ProjectId: project}})
					d := open(t, client.WatchActions, &workflow.WatchActionsRequest{RunId: runID("run")})
					a.next()
					b.next()
					c.next()
					d.next()
					leave = append(leave, a.stop, b.stop, c.stop, d.stop)
				}
				return leave
			}
			// Once before, so that connections and pools are there.
			for _, leave := range openAll(t, 1) {
				leave()
			}
			repo.awaitCount(t, 0)
			server.http1.CloseIdleConnections()
			before := goleak.IgnoreCurrent()

			leave := openAll(t, each)
			repo.awaitCount(t, 5*each) // WatchRunDetails holds two
			// While something is on its way to them, too.
			setPhase(t, repo, id, running)
			for _, leave := range leave {
				leave()
			}
			repo.awaitCount(t, 0)
			server.http1.CloseIdleConnections()
			// A connection of the pool, on which a write was slow, keeps a reader of the driver's until it is used again.
			pooled := goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).bgRead")
			require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NoError(c, goleak.Find(before, pooled)) }, eventually, poll)
		})
	}
}

// TestDrainEndsStreams is what happens at shutdown: streams end with unavailable at once, other requests are still answered.
func TestDrainEndsStreams(t *testing.T) {
	repo := &watching{ActionRepo: newRepo(t)}
	server := newServer(t, repo)
	create(t, repo, actionID("run", "a0"))
	id := actionID("run", "a0")

	details := open(t, server.runs().WatchRunDetails, &workflow.WatchRunDetailsRequest{RunId: runID("run")})
	details.next()
	actions := open(t, server.runs(connect.WithGRPC()).WatchActions, &workflow.WatchActionsRequest{RunId: runID("run")})
	actions.next()
	var bidis []*connect.BidiStreamForClient[workflow.UpdateActionStatusStreamRequest, workflow.UpdateActionStatusStreamResponse]
	for _, options := range [][]connect.ClientOption{nil, {connect.WithGRPC()}} {
		bidi := server.internal(options...).UpdateActionStatusStream(t.Context())
		require.NoError(t, bidi.Send(&workflow.UpdateActionStatusStreamRequest{Request: statusRequest(id, running), Nonce: 1}))
		_, err := bidi.Receive()
		require.NoError(t, err)
		bidis = append(bidis, bidi)
	}

	server.Drain()
	server.Drain() // again is harmless
	requireCode(t, connect.CodeUnavailable, details.end(), "shutting down")
	requireCode(t, connect.CodeUnavailable, actions.end(), "shutting down")
	for _, bidi := range bidis {
		_, err := bidi.Receive()
		requireCode(t, connect.CodeUnavailable, err, "shutting down")
		_ = bidi.CloseRequest()
		_ = bidi.CloseResponse()
	}
	repo.awaitCount(t, 0)

	_, err := server.runs().GetRunDetails(t.Context(), connect.NewRequest(&workflow.GetRunDetailsRequest{RunId: runID("run")}))
	require.NoError(t, err)
	late := open(t, server.runs().WatchActions, &workflow.WatchActionsRequest{RunId: runID("run")})
	requireCode(t, connect.CodeUnavailable, late.end(), "shutting down")
}

// flood is a repository whose run never stops changing.
type flood struct{ watching }

func (f *flood) ListActions(context.Context, interfaces.ListResourceInput) ([]*models.Action, error) {
	return nil, nil
}

func (f *flood) WatchAllActionUpdates(ctx context.Context, id *common.RunIdentifier, updates chan<- *models.Action, _ chan<- error) {
	defer f.count()()
	filler := strings.Repeat("x", 20_000)
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		row := models.NewActionModel(&common.ActionIdentifier{Run: id, Name: fmt.Sprint(i)})
		row.ActionGroup = nullable(filler)
		select {
		case updates <- row:
			<-pace.C
		case <-ctx.Done():
			return
		}
	}
}

// TestClientThatDoesNotReadLosesItsStream lets clients ask for a flood and then read nothing, while another one reads.
func TestClientThatDoesNotReadLosesItsStream(t *testing.T) {
	repo := &flood{}
	server := newServer(t, repo, func(c *Config) { c.StreamSendTimeout = 300 * time.Millisecond })
	request := &workflow.WatchActionsRequest{RunId: runID("run")}

	// HTTP/1.1: a connection that nobody reads from.
	body, err := proto.Marshal(request)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	envelope := append([]byte{0, 0, 0, 0, byte(len(body))}, body...)
	_, err = fmt.Fprintf(conn, "POST /flyteidl2.workflow.RunService/WatchActions HTTP/1.1\r\nHost: x\r\n"+
		"Content-Type: application/connect+proto\r\nContent-Length: %d\r\n\r\n%s", len(envelope), envelope)
	require.NoError(t, err)
	// HTTP/2: a stream that nobody reads from, on a connection that is fine otherwise.
	uncompressed := connect.WithAcceptCompression("gzip", nil, nil) // or the flood would be a trickle
	stream, err := server.runs(uncompressed).WatchActions(t.Context(), connect.NewRequest(request))
	require.NoError(t, err)
	require.True(t, stream.Receive())
	t.Cleanup(func() { _ = stream.Close() })

	ctx, leave := context.WithCancel(t.Context())
	good, err := server.runs(uncompressed).WatchActions(ctx, connect.NewRequest(request))
	require.NoError(t, err)
	var received atomic.Int64
	var reading sync.WaitGroup
	reading.Go(func() {
		for good.Receive() {
			received.Add(1)
		}
		_ = good.Close()
	})

	repo.awaitCount(t, 3)
	repo.awaitCount(t, 1)
	soFar := received.Load()
	require.Eventually(t, func() bool { return received.Load() > soFar+10 }, eventually, poll, "the one that reads goes on")
	leave()
	reading.Wait()
	repo.awaitCount(t, 0)
}
