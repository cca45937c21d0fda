package measure

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpreadOf(t *testing.T) {
	assert.Zero(t, SpreadOf(nil))
	assert.Equal(t, Spread{Runs: 1, Median: 2, Lowest: 2, Highest: 2}, SpreadOf([]float64{2}))
	values := []float64{9, 1, 2}
	assert.Equal(t, Spread{Runs: 3, Median: 2, Lowest: 1, Highest: 9}, SpreadOf(values))
	assert.Equal(t, []float64{9, 1, 2}, values, "their order is the caller's")
	assert.Equal(t, Spread{Runs: 4, Median: 3, Lowest: 1, Highest: 9}, SpreadOf([]float64{9, 1, 2, 4}))
}
