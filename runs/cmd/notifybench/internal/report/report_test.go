package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/trial"
)

func TestNumbers(t *testing.T) {
	assert.Equal(t, "1,234,567", Count(1234567))
	assert.Equal(t, []string{"0.5", "99.9", "12,346"}, []string{Rate(0.5), Rate(99.9), Rate(12345.6)})
	assert.Equal(t, []string{"0.050", "4.10", "99.99", "3,085"}, []string{Ms(0.05), Ms(4.1), Ms(99.99), Ms(3085.2)})
}

func TestSpreads(t *testing.T) {
	assert.Equal(t, "–", Spread(measure.Spread{}, Rate))
	assert.Equal(t, "2.0", Spread(measure.SpreadOf([]float64{2}), Rate))
	assert.Equal(t, "2.0 (1.0–3.0)", Spread(measure.SpreadOf([]float64{1, 2, 3}), Rate))
}

func TestTables(t *testing.T) {
	var out bytes.Buffer
	Table(&out, []string{"mode", "n"}, []string{"größer", "1,000"})
	assert.Equal(t, "  mode        n\n  größer  1,000\n", out.String())
	out.Reset()
	Ratios(&out, "writes", nil)
	assert.Empty(t, out.String())
	Ratios(&out, "writes", []trial.Ratio{{Mode: "a", To: "b", Spread: measure.SpreadOf([]float64{2})}})
	assert.Contains(t, out.String(), "a / b  2.00")
}
