package service

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/otelutils"
)

func TestEveryMethodIsMeasured(t *testing.T) {
	metrics, err := otelutils.RegisterMeterProvider(t.Name())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, metrics.Shutdown(context.Background())) })
	server := newMeasuredServer(t, newRepo(t), otelutils.GetMeterProvider(t.Name()))
	for _, rpc := range rpcs() {
		// Whether it succeeds does not matter here.
		_ = rpc.call(t.Context(), server, rpc.request)
	}
	for _, rpc := range rpcs() {
		require.Eventually(t, func() bool {
			page := httptest.NewRecorder()
			metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
			for line := range strings.Lines(page.Body.String()) {
				if strings.HasPrefix(line, "rpc_server_duration_seconds_count{") && strings.Contains(line, "/"+rpc.name+`"`) {
					return true
				}
			}
			return false
		}, eventually, poll, "%s has no rpc_server_duration_seconds", rpc.name)
	}
}
