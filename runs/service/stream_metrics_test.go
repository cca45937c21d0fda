package service

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/flyteorg/flyte/v2/flytestdlib/otelutils"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

func TestOpenWatchStreamsAreCounted(t *testing.T) {
	metrics, err := otelutils.RegisterMeterProvider(t.Name())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, metrics.Shutdown(context.Background())) })
	server := newMeasuredServer(t, newRepo(t), otelutils.GetMeterProvider(t.Name()))
	shows := func(line string) {
		t.Helper()
		require.Eventually(t, func() bool {
			page := httptest.NewRecorder()
			metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
			return strings.Contains(page.Body.String(), line+"\n")
		}, eventually, poll, line)
	}
	for _, rpc := range []string{"WatchRuns", "WatchRunDetails", "WatchActions", "WatchActionDetails"} {
		shows(`runs_watch_streams{rpc="` + rpc + `"} 0`)
	}

	open := func(ctx context.Context) {
		stream, err := server.runs().WatchRuns(ctx, connect.NewRequest(&workflow.WatchRunsRequest{
			Target: &workflow.WatchRunsRequest_ProjectId{ProjectId: &common.ProjectIdentifier{Organization: "org", Domain: "dev", Name: "proj"}},
		}))
		require.NoError(t, err)
		t.Cleanup(func() { _ = stream.Close() })
		require.True(t, stream.Receive())
	}
	first, leaveFirst := context.WithCancel(t.Context())
	defer leaveFirst()
	second, leaveSecond := context.WithCancel(t.Context())
	defer leaveSecond()
	open(first)
	open(second)
	shows(`runs_watch_streams{rpc="WatchRuns"} 2`)
	leaveFirst()
	shows(`runs_watch_streams{rpc="WatchRuns"} 1`)
	server.Drain()
	shows(`runs_watch_streams{rpc="WatchRuns"} 0`)
}

// The service works without figures.
func TestMetersThatCannotBeMadeAreNotFatal(t *testing.T) {
	server := newMeasuredServer(t, newRepo(t), brokenMeters{})
	_, err := server.runs().ListRuns(t.Context(), connect.NewRequest(&workflow.ListRunsRequest{
		ScopeBy: &workflow.ListRunsRequest_Org{Org: "org"},
	}))
	require.NoError(t, err)
}

type brokenMeters struct{ embedded.MeterProvider }

func (brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ noop.Meter }

func (brokenMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return nil, errors.New("broken")
}

func (brokenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errors.New("broken")
}
