package trial

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
)

func TestEachRoundHasEachModeOnce(t *testing.T) {
	modes := []string{"a", "b", "c", "d"}
	orders := map[string]bool{}
	for range 50 {
		plan := Plan(modes, 3)
		assert.Len(t, plan, 12)
		for round := range 3 {
			var seen []string
			order := ""
			for _, trial := range plan[round*4 : round*4+4] {
				assert.Equal(t, round+1, trial.Round)
				seen = append(seen, trial.Mode)
				order += trial.Mode
			}
			assert.ElementsMatch(t, modes, seen)
			orders[order] = true
		}
	}
	assert.Greater(t, len(orders), 1, "the order is random")
	assert.True(t, slices.Equal(modes, []string{"a", "b", "c", "d"}), "the caller's list is left alone")
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	figures := []Figure{
		{Trial{1, "slow"}, 10}, {Trial{1, "fast"}, 50},
		{Trial{2, "fast"}, 5}, {Trial{2, "slow"}, 1},
		{Trial{3, "fast"}, 7}, // its counterpart is void
		{Trial{4, "slow"}, 0}, {Trial{4, "fast"}, 7},
	}
	assert.Equal(t, measure.Spread{Runs: 4, Median: 7, Lowest: 5, Highest: 50}, OfMode(figures, "fast"))
	assert.Equal(t, []Ratio{{Mode: "fast", To: "slow", Spread: measure.Spread{Runs: 2, Median: 5, Lowest: 5, Highest: 5}}},
		Ratios(figures, []string{"slow", "fast"}, []string{"slow", "none"}))
}
