package statuspage

import (
	"bufio"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/core"
	"github.com/flyteorg/flyte/v2/runs/migrations"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// soon bounds the wait for what must come.
const soon = time.Minute

func newRepository(t *testing.T) *impl.Repository {
	t.Helper()
	cfg := dbtest.Config(t)
	db, err := database.GetDB(t.Context(), &cfg)
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, database.Migrate(t.Context(), db, migrations.FS()))
	repo, err := impl.NewRepository(db, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, repo.Close(context.Background())) })
	return repo
}

// serve serves the page as the service does.
func serve(t *testing.T, repo interfaces.ActionRepo, notify func() interfaces.NotifyStatus) (*Page, string) {
	t.Helper()
	page := New(repo, notify)
	mux := http.NewServeMux()
	for pattern, handler := range page.Handlers() {
		mux.Handle(pattern, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return page, server.URL
}

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// viewer reads frames as a browser does.
type viewer struct {
	t     *testing.T
	lines *bufio.Scanner
	close func() error
}

func look(t *testing.T, url string) *viewer {
	t.Helper()
	response := get(t, url+"/status/events")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 10<<20)
	return &viewer{t: t, lines: lines, close: response.Body.Close}
}

// next returns the next frame, or false at the end of the stream.
func (v *viewer) next() (f frame, more bool) {
	for v.lines.Scan() {
		if data, found := strings.CutPrefix(v.lines.Text(), "data: "); found {
			require.NoError(v.t, json.Unmarshal([]byte(data), &f))
			return f, true
		}
	}
	return f, false
}

// until reads frames until one is as wanted.
func (v *viewer) until(wanted func(frame) bool) frame {
	v.t.Helper()
	var last frame
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); {
		f, more := v.next()
		require.True(v.t, more, "the stream has ended; last frame %+v", last)
		if wanted(f) {
			return f
		}
		last = f
	}
	require.Fail(v.t, "the frame has not come", "last %+v", last)
	return last
}

func action(run, name string) *models.Action {
	a := models.NewActionModel(&common.ActionIdentifier{Run: &common.RunIdentifier{Project: "p", Domain: "d", Name: run}, Name: name})
	if name != "a0" {
		a.ParentActionName.String, a.ParentActionName.Valid = "a0", true
	}
	return a
}

func create(t *testing.T, repo interfaces.ActionRepo, run, name string) {
	t.Helper()
	_, err := repo.CreateAction(t.Context(), action(run, name), false)
	require.NoError(t, err)
}

func move(t *testing.T, repo interfaces.ActionRepo, run, name string, phase common.ActionPhase) {
	t.Helper()
	id := &common.ActionIdentifier{Run: &common.RunIdentifier{Project: "p", Domain: "d", Name: run}, Name: name}
	require.NoError(t, repo.UpdateActionPhase(t.Context(), id, phase, 1, core.CatalogCacheStatus_CACHE_DISABLED, nil, nil))
}

const (
	queued    = common.ActionPhase_ACTION_PHASE_QUEUED
	running   = common.ActionPhase_ACTION_PHASE_RUNNING
	succeeded = common.ActionPhase_ACTION_PHASE_SUCCEEDED
)

func TestFramesFollowWhatHappens(t *testing.T) {
	repository := newRepository(t)
	repo := repository.ActionRepo()
	create(t, repo, "early", "a0")
	create(t, repo, "early", "a1")
	page, url := serve(t, repo, repository.NotifyStatus)
	v := look(t, url)

	// What was there, and whose actions.
	f := v.until(func(f frame) bool { return f.Actions[queued] == 2 })
	assert.Equal(t, 1, f.Runs[queued])
	require.Len(t, f.Followed, 1)
	assert.Equal(t, "early", f.Followed[0].Name)
	assert.Equal(t, "queued", f.Phases[queued])
	assert.Empty(t, f.Failures)
	assert.Equal(t, "batched", f.Notify.Mode)

	// What changes, and what is new.
	move(t, repo, "early", "a1", running)
	create(t, repo, "late", "a0")
	f = v.until(func(f frame) bool { return f.Actions[running] == 1 && len(f.Followed) == 2 && f.Actions[queued] == 2 })
	assert.Equal(t, 2, f.Runs[queued])
	assert.Positive(t, f.ActionUpdates)

	// A second browser sees the same, at once, and one that leaves disturbs nobody.
	other := look(t, url)
	g, more := other.next()
	require.True(t, more)
	assert.Equal(t, 2, g.Runs[queued])
	require.NoError(t, other.close())

	move(t, repo, "early", "a1", succeeded)
	move(t, repo, "early", "a0", succeeded)
	move(t, repo, "late", "a0", succeeded)
	f = v.until(func(f frame) bool { return f.Actions[succeeded] == 3 && f.Runs[succeeded] == 2 })
	sum := uint64(0)
	for _, c := range f.Notify.Channels {
		assert.Equal(t, c.Added, c.Coalesced+c.Delivered+c.Rejected+uint64(c.Pending), c.Channel)
		sum += c.Delivered
	}
	assert.Positive(t, sum)

	// Nobody looks: nothing runs. Somebody looks again: it begins anew.
	require.NoError(t, v.close())
	require.Eventually(t, func() bool {
		page.board.mu.Lock()
		defer page.board.mu.Unlock()
		return page.board.stop == nil && len(page.board.viewers) == 0
	}, soon, time.Millisecond)
	v = look(t, url)
	v.until(func(f frame) bool { return f.Runs[succeeded] == 2 && f.Actions[succeeded] == 3 })

	page.Drain()
	for more := true; more; {
		_, more = v.next()
	}
}

func TestAFailingDatabaseIsShownAndRecoveredFrom(t *testing.T) {
	repository := newRepository(t)
	repo := &breakable{ActionRepo: repository.ActionRepo()}
	repo.broken.Store(true)
	create(t, repo, "r", "a0")
	_, url := serve(t, repo, repository.NotifyStatus)
	v := look(t, url)
	f := v.until(func(f frame) bool { return len(f.Failures) > 0 })
	assert.Equal(t, []string{"runs: read runs: no luck"}, f.Failures)

	repo.broken.Store(false)
	f = v.until(func(f frame) bool { return f.Actions[queued] == 1 })
	assert.Empty(t, f.Failures)
	require.NoError(t, v.close())
}

func TestThereIsABoundOnViewers(t *testing.T) {
	b := newBoard(nil, nil)
	for range maxViewers {
		b.viewers[make(chan []byte)] = true
	}
	page := &Page{board: b}
	w := httptest.NewRecorder()
	page.events(w, httptest.NewRequest(http.MethodGet, "/status/events", nil))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Contains(t, w.Body.String(), errTooManyViewers.Error())
}

// Everything that the page loads is served here, under a policy that allows nothing else, and nothing goes on the page as markup.
func TestThePageIsSelfContained(t *testing.T) {
	_, url := serve(t, nil, nil)
	html := get(t, url+"/")
	require.Equal(t, http.StatusOK, html.StatusCode)
	served := map[string]bool{}
	for pattern := range New(nil, nil).Handlers() {
		_, path, _ := strings.Cut(pattern, " ")
		served[path] = true
	}
	reference := regexp.MustCompile(`(?:href|src)="([^"]*)"|from '\.(/[^']*)'|EventSource\('([^']*)'\)`)
	absolute := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+\.|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(| style="| on[a-z]+="`)
	require.NoError(t, fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := assets.ReadFile(name)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
		assert.Empty(t, absolute.FindAllString(text, -1), name)
		for _, found := range reference.FindAllStringSubmatch(text, -1) {
			path := found[1] + found[3]
			if found[2] != "" {
				path = "/status" + found[2]
			}
			assert.True(t, served[path], "%s asks for %s", name, path)
		}
		return nil
	}))
	for path := range served {
		if path == "/status/events" {
			continue
		}
		response := get(t, url+strings.Replace(path, "{$}", "", 1))
		assert.Equal(t, http.StatusOK, response.StatusCode, path)
		assert.Equal(t, policy, response.Header.Get("Content-Security-Policy"), path)
		assert.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"), path)
	}
	assert.Equal(t, http.StatusNotFound, get(t, url+"/other").StatusCode)
}
