// Package measure holds what the load tests measure with: latency histograms, and per RPC the calls, failures and latencies.
package measure

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	lowest  = int64(1)                                   // µs
	highest = int64(10 * time.Minute / time.Microsecond) // µs
	digits  = 3                                          // significant decimal digits that a latency keeps
)

// Histogram keeps latencies from 1 µs to 10 min with three significant digits, in 160 KiB whatever their number; shorter and
// longer ones count as the bound. It is safe for concurrent use.
type Histogram struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{h: hdrhistogram.New(lowest, highest, digits)}
}

// Record notes one latency.
func (h *Histogram) Record(d time.Duration) {
	us := min(max(d.Microseconds(), lowest), highest)
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.h.RecordValue(us) // fails out of bounds only
}

// Summary is what a histogram says in a few numbers. Latencies in milliseconds; all are 0 when Count is.
type Summary struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"meanMs"`
	P50   float64 `json:"p50Ms"`
	P95   float64 `json:"p95Ms"`
	P99   float64 `json:"p99Ms"`
	Max   float64 `json:"maxMs"`
	// Distribution are the latencies at Percentiles, as far as there are enough values to tell; for charts.
	Distribution []float64 `json:"distributionMs,omitempty"`
}

// Percentiles at which a Summary keeps the distribution; denser where the slow ones are.
var Percentiles = []float64{
	1, 5, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92, 94, 95, 96, 97, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99,
}

// Summary computes the numbers of what was recorded so far.
func (h *Histogram) Summary() Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.h.TotalCount() == 0 {
		return Summary{}
	}
	ms := func(us int64) float64 { return float64(us) / 1000 }
	var distribution []float64
	for _, percentile := range Percentiles {
		if above := (100 - percentile) / 100 * float64(h.h.TotalCount()); above < 1 {
			break
		}
		distribution = append(distribution, ms(h.h.ValueAtQuantile(percentile)))
	}
	return Summary{
		Count: h.h.TotalCount(),
		Mean:  h.h.Mean() / 1000,
		P50:   ms(h.h.ValueAtQuantile(50)),
		P95:   ms(h.h.ValueAtQuantile(95)),
		P99:   ms(h.h.ValueAtQuantile(99)),
		Max:   ms(h.h.Max()),

		Distribution: distribution,
	}
}
