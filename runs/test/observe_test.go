package test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

func (s *service) get(t *testing.T, path string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func recordRun(t *testing.T, c client, name string) {
	t.Helper()
	answer, err := c.internal.RecordAction(t.Context(), connect.NewRequest(&workflow.RecordActionRequest{
		ActionId: &common.ActionIdentifier{Run: &common.RunIdentifier{Org: "o", Project: "p", Domain: "d", Name: name}, Name: "a0"},
		Spec:     &workflow.RecordActionRequest_Trace{Trace: &workflow.TraceAction{}},
	}))
	require.NoError(t, err)
	require.Zero(t, answer.Msg.GetStatus().GetCode())
}

// A pump whose statements get no answer: the service says so, in readiness, in /debug/notify and in /metrics, and stays alive; and when the
// network is well again, so is everything, and nothing is lost.
func TestAPumpThatCannotSendIsSeen(t *testing.T) {
	s := startService(t, impl.NotifyModeBatched, pgproxy.Options{})
	c := s.client(t)
	recordRun(t, c, "before")
	status := func() (status interfaces.NotifyStatus) {
		code, body := s.get(t, "/debug/notify")
		require.Equal(t, http.StatusOK, code, body)
		require.NoError(t, json.Unmarshal([]byte(body), &status))
		return status
	}
	runsChannel := func() interfaces.NotifyChannelStatus { return status().Channels[0] }
	require.Eventually(t, func() bool { return runsChannel().Delivered == 1 && runsChannel().Pending == 0 }, deadline, 10*time.Millisecond)
	well := status()
	assert.NotZero(t, well.Sender.BackendPID)
	assert.NotZero(t, well.Listener.BackendPID)
	assert.Empty(t, well.Listener.Error)
	code, body := s.get(t, "/readyz")
	require.Equal(t, http.StatusOK, code, body)
	for _, check := range []string{"process", "database", "listener", "pump"} {
		assert.Contains(t, body, `"`+check+`":"ok"`)
	}

	release := s.proxy.HoldBack(func(statement pgproxy.Statement) bool {
		return strings.HasSuffix(statement.App, "notify-pump")
	}, time.Hour)
	recordRun(t, c, "meanwhile")
	require.Eventually(t, func() bool {
		code, body = s.get(t, "/readyz")
		return code == http.StatusServiceUnavailable
	}, deadline, 100*time.Millisecond)
	var answer struct{ Checks map[string]string }
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	assert.Regexp(t, `^(run|action)_updates: 1 changes wait to be announced, the first for \d+ s: `, answer.Checks["pump"])
	assert.Equal(t, "ok", answer.Checks["database"])
	assert.Equal(t, "ok", answer.Checks["listener"])
	code, _ = s.get(t, "/healthz")
	assert.Equal(t, http.StatusOK, code)
	_, body = s.get(t, "/metrics")
	assert.Contains(t, body, `runs_notify_pending{channel="run_updates"} 1`+"\n")

	release()
	s.proxy.CutMatching("notify-pump")
	require.Eventually(t, func() bool {
		code, _ = s.get(t, "/readyz")
		return code == http.StatusOK && runsChannel().Delivered == 2
	}, deadline, 100*time.Millisecond)
	for _, channel := range status().Channels {
		assert.Equal(t, channel.Added, channel.Coalesced+channel.Delivered+channel.Rejected+uint64(channel.Pending))
		assert.Zero(t, channel.Failures)
	}
}
