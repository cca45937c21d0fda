package runs

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/otelutils"
)

// Whoever has the name of the service's meters already keeps them; the service starts without.
func TestTheServiceStartsWithoutMetrics(t *testing.T) {
	taken, err := otelutils.RegisterMeterProvider(serviceName)
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Shutdown(context.Background())) }()

	s := start(t, testConfig(dbtest.Config(t)))
	url := s.url()
	assert.Contains(t, s.log.String(), `there are no metrics: meter provider of \"runs\" is registered already`)
	status, body := s.post(url+"/flyteidl2.workflow.RunService/ListRuns", `{"org":"o"}`)
	assert.Equal(t, http.StatusOK, status, body)
	status, _ = s.get(url + "/metrics")
	assert.Equal(t, http.StatusNotFound, status)
	s.stop()
	require.NoError(t, s.end())
}
