package measure

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHistogramSummary(t *testing.T) {
	h := NewHistogram()
	assert.Zero(t, h.Summary())
	for i := 1; i <= 100; i++ {
		h.Record(time.Duration(i) * time.Millisecond)
	}
	s := h.Summary()
	assert.EqualValues(t, 100, s.Count)
	assert.InEpsilon(t, 50.5, s.Mean, 0.01)
	assert.InEpsilon(t, 50, s.P50, 0.01)
	assert.InEpsilon(t, 95, s.P95, 0.01)
	assert.InEpsilon(t, 99, s.P99, 0.01)
	assert.InEpsilon(t, 100, s.Max, 0.01)

	require.Len(t, s.Distribution, 20, "100 values say nothing beyond the 99th percentile")
	for i, ms := range s.Distribution {
		assert.InEpsilon(t, Percentiles[i], ms, 0.01)
	}
}

func TestHistogramClampsToItsBounds(t *testing.T) {
	h := NewHistogram()
	h.Record(-time.Second)
	h.Record(time.Hour)
	s := h.Summary()
	assert.EqualValues(t, 2, s.Count)
	assert.InEpsilon(t, 600_000, s.Max, 0.01)
}

func TestRecorder(t *testing.T) {
	r := NewRecorder()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			r.Succeeded("Update", 10*time.Millisecond)
			r.Failed("Update", "internal", "disk full")
			r.Failed("Record", "unavailable", "refused")
		})
	}
	wg.Wait()
	r.Failed("Record", "internal", "other")
	calls, errors := r.Totals()
	assert.EqualValues(t, 31, calls)
	assert.EqualValues(t, 21, errors)

	rpcs := r.RPCs(2 * time.Second)
	require.Len(t, rpcs, 2)
	assert.Equal(t, "Update", rpcs[0].Name)
	assert.EqualValues(t, 20, rpcs[0].Calls)
	assert.EqualValues(t, 10, rpcs[0].Errors)
	assert.InEpsilon(t, 5, rpcs[0].Rate, 1e-9)
	assert.EqualValues(t, 10, rpcs[0].Latency.Count)
	assert.Zero(t, rpcs[1].Latency)

	assert.Equal(t, []Failure{
		{RPC: "Record", Code: "unavailable", Count: 10, Sample: "refused"},
		{RPC: "Update", Code: "internal", Count: 10, Sample: "disk full"},
		{RPC: "Record", Code: "internal", Count: 1, Sample: "other"},
	}, r.Failures())
}
