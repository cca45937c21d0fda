package impl

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// What reads for the watchers shows: how long, how many rows, and whether it failed.
func TestJointReadsAreMeasured(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() { require.NoError(t, meters.Shutdown(context.Background())) })
	var refusal error
	r := &actionRepo{joint: newJointReader(func(_ context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
		return rowsOf(keys), refusal
	})}
	t.Cleanup(r.joint.close)
	require.NoError(t, r.measureReads(meters.Meter("test")))

	logged(t)
	keys := []rowKey{{"p", "d", "r", "a"}, {"p", "d", "r", "b"}, {"p", "d", "r", "c"}}
	_, err := r.joint.read(t.Context(), keys)
	require.NoError(t, err)
	refusal = errors.New("no")
	_, err = r.joint.read(t.Context(), keys[:1])
	require.ErrorIs(t, err, refusal)

	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	counts := map[string]uint64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, point := range data.DataPoints {
				outcome, _ := point.Attributes.Value("outcome")
				counts[m.Name+" "+outcome.AsString()] = point.Count
			}
		case metricdata.Histogram[int64]:
			require.Len(t, data.DataPoints, 1)
			counts[m.Name] = uint64(data.DataPoints[0].Sum)
		}
	}
	assert.Equal(t, map[string]uint64{"runs.watch.read.duration ok": 1, "runs.watch.read.duration failed": 1, "runs.watch.read.rows": 3 + 1}, counts)
}
