package monitoring_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/runs"
	"github.com/flyteorg/flyte/v2/runs/config"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// soon bounds the wait for what must come.
const soon = time.Minute

func remarshal(t *testing.T, from, to any) {
	t.Helper()
	raw, err := json.Marshal(from)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, to))
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// scrapeLive returns what a service shows at /metrics after it has been used, when every name in want is there, or at the end of patience.
func scrapeLive(t *testing.T, want []string) (names map[string]bool) {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Address, cfg.Server.MetricsAddress = freeAddress(t), freeAddress(t)
	cfg.Database.DbConfig = dbtest.Config(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runs.Run(ctx, cfg, io.Discard) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: soon}
	ask := func(method, url, body string) (int, string) {
		request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(answer)
	}
	require.Eventually(t, func() bool {
		status, _ := ask(http.MethodGet, "http://"+cfg.Server.Address+"/readyz", "")
		return status == http.StatusOK
	}, soon, 10*time.Millisecond)

	// A watcher, by way of the status page.
	looking := make(chan struct{})
	go func() {
		defer close(looking)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cfg.Server.Address+"/status/events", nil)
		if !assert.NoError(t, err) {
			return
		}
		response, err := transport.RoundTrip(request)
		if !assert.NoError(t, err) {
			return
		}
		defer response.Body.Close()
		assert.Equal(t, http.StatusOK, response.StatusCode)
		_, _ = io.Copy(io.Discard, response.Body) // until the service ends
	}()
	t.Cleanup(func() {
		stop()
		<-looking
	})

	const id = `"actionId":{"run":{"org":"o","project":"p","domain":"d","name":"r"},"name":"a0"}`
	rpc := "http://" + cfg.Server.Address + "/flyteidl2.workflow.InternalRunService/"
	for method, body := range map[string]string{
		"RecordAction": `{` + id + `,"trace":{}}`, "UpdateActionStatus": `{` + id + `,"status":{"phase":"ACTION_PHASE_RUNNING","attempts":1}}`,
	} {
		status, answer := ask(http.MethodPost, rpc+method, body)
		require.Equal(t, http.StatusOK, status, answer)
	}
	for deadline := time.Now().Add(soon); ; time.Sleep(20 * time.Millisecond) {
		status, page := ask(http.MethodGet, "http://"+cfg.Server.MetricsAddress+"/metrics", "")
		require.Equal(t, http.StatusOK, status, page)
		names = map[string]bool{}
		for line := range strings.Lines(page) {
			if !strings.HasPrefix(line, "#") {
				names[line[:strings.IndexAny(line, "{ ")]] = true
			}
		}
		missing := slices.ContainsFunc(want, func(name string) bool { return !names[name] })
		if !missing || time.Now().After(deadline) {
			return names
		}
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:runs|rpc|go|process)_[a-z_]+\b`)
	documented = regexp.MustCompile("(?m)^\\| `((?:runs|rpc)_[a-z_]+)")
	labelName  = regexp.MustCompile(`\b(?:rpc|rpc_method|db_name)\b`)
)

// Every name in the dashboard, in the rules and in the table of docs/operations.md is one that a live service shows; and every metric of
// ours that it shows is in the table.
func TestNamesAreThoseOfALiveService(t *testing.T) {
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	operations, err := os.ReadFile("../operations.md")
	require.NoError(t, err)

	used := map[string][]string{} // name → where
	note := func(where, text string) {
		for _, name := range metricName.FindAllString(text, -1) {
			if !labelName.MatchString(name) {
				used[name] = append(used[name], where)
			}
		}
	}
	for where, expr := range expressions(t, readDashboard(t)) {
		note("dashboard, "+where, expr)
	}
	for _, expr := range ruleExpressions(t, rules) {
		note("rules", expr)
	}
	var want, table []string
	for name := range used {
		want = append(want, name)
	}
	for _, row := range documented.FindAllStringSubmatch(string(operations), -1) {
		table = append(table, row[1])
	}
	require.NotEmpty(t, table)

	live := scrapeLive(t, want)
	for name, where := range used {
		assert.True(t, live[name], "%s is not in /metrics; %s", name, where)
	}
	isLive := func(name string) bool { return live[name] || live[name+"_bucket"] }
	for _, name := range table {
		assert.True(t, isLive(name), "%s is in the table and not in /metrics", name)
	}
	for name := range live {
		family := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && live[base+"_bucket"] {
				family = base
			}
		}
		if strings.HasPrefix(family, "runs_") {
			assert.Contains(t, table, family, "in /metrics, but not in the table of docs/operations.md")
		}
	}
}

// Every alert has a paragraph in docs/operations.md, where its runbook link leads.
func TestEveryAlertIsDocumented(t *testing.T) {
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	operations, err := os.ReadFile("../operations.md")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		assert.Contains(t, string(operations), "\n### "+alert[1]+"\n")
		assert.Contains(t, string(rules), "runbook: docs/operations.md#"+strings.ToLower(alert[1])+"\n")
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (Runs\w+)$`).FindAllStringSubmatch(string(operations), -1) {
		assert.Contains(t, string(rules), "- alert: "+heading[1]+"\n")
	}
}
