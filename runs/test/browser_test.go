//go:build browser

package test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// These tests need Chromium (or Chrome) and are run by `make browser-check`. Pictures of what they saw are left in the folder that
// BROWSER_TEST_PICTURES names, if it is set.

// browser is a tab of a headless Chromium with a profile of its own, and what it complained about.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	requests   []string
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	allocator, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), // which is small in containers
		chromedp.UserDataDir(t.TempDir()),
	)
	ctx, closeTab := chromedp.NewContext(allocator)
	ctx, cancel := context.WithTimeout(ctx, 2*deadline)
	// In this order: the tab, the program, whose end the allocator waits for.
	t.Cleanup(stop)
	t.Cleanup(closeTab)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.Navigate("about:blank"))
	require.NoError(t, chromedp.Listen(ctx, b.note))
	return b
}

func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		b.complaints = append(b.complaints, e.Entry.Text)
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprint("console: ", e.Type))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// see waits until a JavaScript expression is true.
func (b *browser) see(expression string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(deadline)))
	if err != nil {
		b.picture("failed")
		page, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		require.NoError(b.t, err, "%s\nthe page shows:\n%s", expression, page)
	}
}

func ask[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return value
}

func (b *browser) picture(name string) {
	dir := os.Getenv("BROWSER_TEST_PICTURES")
	if dir == "" {
		return
	}
	image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), image, 0o644))
}

// contented checks that the browser had nothing to complain about and asked nobody else.
func (b *browser) contented(service string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(b.t, b.complaints)
	assert.NotEmpty(b.t, b.requests)
	home, err := url.Parse(service)
	require.NoError(b.t, err)
	for _, request := range b.requests {
		asked, err := url.Parse(request)
		require.NoError(b.t, err)
		assert.Equal(b.t, home.Host, asked.Host, request)
	}
}

// phaseOf is an expression: what the page says of a run's phase.
func phaseOf(run string) string {
	return fmt.Sprintf(`document.querySelector("#followed li[data-run='%s']")?.dataset.phase`, run)
}

// A run that is started by RPC appears, and is seen finishing, without a reload.
func TestTheStatusPageShowsARunFinishing(t *testing.T) {
	s := startService(t, impl.NotifyModeBatched, pgproxy.Options{})
	c := s.client(t)
	b := openBrowser(t)
	b.do(chromedp.EmulateViewport(1400, 900), chromedp.Navigate(s.url+"/"))
	b.see(`document.getElementById("live").textContent === "live"`)
	b.see(`!document.getElementById("none").hidden`)

	run := &common.RunIdentifier{Org: "o", Project: "p", Domain: "d", Name: "shown"}
	record := func(name, parent string) *common.ActionIdentifier {
		id := &common.ActionIdentifier{Run: run, Name: name}
		answer, err := c.internal.RecordAction(t.Context(), connect.NewRequest(&workflow.RecordActionRequest{
			ActionId: id, Parent: parent, Spec: &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{}},
		}))
		require.NoError(t, err)
		require.Zero(t, answer.Msg.GetStatus().GetCode())
		return id
	}
	move := func(id *common.ActionIdentifier, phase common.ActionPhase) {
		answer, err := c.internal.UpdateActionStatus(t.Context(), connect.NewRequest(&workflow.UpdateActionStatusRequest{
			ActionId: id, Status: &workflow.ActionStatus{Phase: phase, Attempts: 1},
		}))
		require.NoError(t, err)
		require.Zero(t, answer.Msg.GetStatus().GetCode())
	}
	root := record("a0", "")
	b.see(phaseOf("shown") + ` === "queued"`)
	var children []*common.ActionIdentifier
	for i := range 20 {
		children = append(children, record(fmt.Sprintf("a%d", i+1), "a0"))
	}
	b.see(`document.getElementById("actions-total").textContent === "21"`)
	move(root, common.ActionPhase_ACTION_PHASE_RUNNING)
	for i, child := range children {
		phase := common.ActionPhase_ACTION_PHASE_SUCCEEDED
		if i == 7 {
			phase = common.ActionPhase_ACTION_PHASE_FAILED
		}
		move(child, phase)
	}
	b.see(phaseOf("shown") + ` === "running"`)
	legend := func(of, phase, n string) {
		b.see(fmt.Sprintf(`document.querySelector("#%s-legend li[data-phase='%s'] b")?.textContent === "%s"`, of, phase, n))
	}
	legend("actions", "succeeded", "19")
	legend("actions", "failed", "1")
	move(root, common.ActionPhase_ACTION_PHASE_SUCCEEDED)
	b.see(phaseOf("shown") + ` === "succeeded"`)
	legend("runs", "succeeded", "1")

	// The pump's figures: charts with a line and a value.
	b.see(`document.querySelector("#delay output").textContent !== "–" && document.querySelector("#batch output").textContent !== "–"`)
	b.see(`document.querySelectorAll("#charts .stroke[d^=M]").length >= 8`)
	assert.Equal(t, "notify: batched", ask[string](b, `document.getElementById("mode").textContent`))
	assert.Empty(t, ask[string](b, `document.getElementById("problems").textContent`))
	b.picture("wide")
	b.contented(s.url)
}

// Names are text, whatever they look like.
func TestTheStatusPageEscapesWhatItShows(t *testing.T) {
	s := startService(t, impl.NotifyModeBatched, pgproxy.Options{})
	c := s.client(t)
	b := openBrowser(t)
	b.do(chromedp.Navigate(s.url + "/"))
	b.see(`document.getElementById("live").textContent === "live"`)

	hostile := []string{`<img src=x onerror=alert(1)>`, `"><script>alert(1)`, `&lt;b&gt; ' " \u003c`}
	for _, name := range hostile {
		_, err := c.internal.RecordAction(t.Context(), connect.NewRequest(&workflow.RecordActionRequest{
			ActionId: &common.ActionIdentifier{Run: &common.RunIdentifier{Org: "o", Project: name, Domain: name, Name: name}, Name: "a0"},
			Spec:     &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{}},
		}))
		require.NoError(t, err)
	}
	b.see(`document.querySelectorAll("#followed li").length === 3`)
	shown := ask[string](b, `[...document.querySelectorAll("#followed .name")].map(name => name.textContent).join("\n")`)
	for _, name := range hostile {
		assert.Contains(t, strings.Split(shown, "\n"), name)
	}
	assert.Zero(t, ask[int](b, `document.querySelectorAll("img, #followed script").length`))
	b.contented(s.url)

	// Even markup that somebody did put there would not run.
	assert.False(t, ask[bool](b, `(() => {
		const script = document.createElement("script");
		script.textContent = "window.ran = true";
		document.body.append(script);
		return window.ran === true;
	})()`))
}

// On a phone nothing sticks out, and text is large enough to read.
func TestTheStatusPageFitsAPhone(t *testing.T) {
	s := startService(t, impl.NotifyModeBatched, pgproxy.Options{})
	c := s.client(t)
	b := openBrowser(t)
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateScale(2), chromedp.EmulateMobile), chromedp.Navigate(s.url+"/"))
	for i := range 3 {
		_, err := c.internal.RecordAction(t.Context(), connect.NewRequest(&workflow.RecordActionRequest{
			ActionId: &common.ActionIdentifier{Run: &common.RunIdentifier{
				Org: "o", Project: strings.Repeat("p", 63), Domain: strings.Repeat("d", 63), Name: strings.Repeat("r", 29) + fmt.Sprint(i),
			}, Name: "a0"},
			Spec: &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{}},
		}))
		require.NoError(t, err)
	}
	b.see(`document.querySelectorAll("#followed li").length === 3`)
	assert.LessOrEqual(t, ask[int](b, `document.documentElement.scrollWidth`), 360)
	assert.Equal(t, 360, ask[int](b, `window.innerWidth`))
	assert.Zero(t, ask[int](b, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > 360.5).length`))
	assert.GreaterOrEqual(t, ask[float64](b, `Math.min(...[...document.querySelectorAll("body *")].filter(e => e.textContent.trim()).map(e => parseFloat(getComputedStyle(e).fontSize)))`), 12.0)
	b.picture("phone")
	b.contented(s.url)
}

// A page that stays open while the service is replaced comes back by itself.
func TestTheStatusPageComesBack(t *testing.T) {
	var address string
	b := openBrowser(t)
	t.Run("before", func(t *testing.T) {
		s := startService(t, impl.NotifyModeBatched, pgproxy.Options{})
		address = strings.TrimPrefix(s.url, "http://")
		b.do(chromedp.Navigate(s.url + "/"))
		b.see(`document.getElementById("live").textContent === "live"`)
	})
	b.see(`document.getElementById("live").textContent === "connecting again"`)
	t.Run("after", func(t *testing.T) {
		startServiceAt(t, address, impl.NotifyModeBatched, pgproxy.Options{})
		b.see(`document.getElementById("live").textContent === "live"`)
	})
}

// What is wrong is said on the page, and gone when it is over.
func TestTheStatusPageSaysWhatIsWrong(t *testing.T) {
	s := startService(t, impl.NotifyModeBatched, pgproxy.Options{})
	b := openBrowser(t)
	b.do(chromedp.EmulateViewport(1400, 900), chromedp.Navigate(s.url+"/"))
	b.see(`document.getElementById("listening").textContent === "listening"`)
	require.NoError(t, s.proxy.Refuse(true))
	s.proxy.CutAll()
	b.see(`document.getElementById("listening").textContent === "not listening"`)
	b.see(`document.querySelector("#problems li")?.textContent.includes("connection refused")`)
	b.picture("problems")
	require.NoError(t, s.proxy.Refuse(false))
	b.see(`document.getElementById("listening").textContent === "listening"`)
	b.see(`document.querySelectorAll("#problems li").length === 0`)
	b.contented(s.url)
}
