// Package trial is how modes are compared fairly: every round has each of them once, in an order of its own, so that what the
// machine does meanwhile hits none of them in particular; and modes are compared within a round.
package trial

import (
	"math/rand/v2"
	"slices"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
)

// Trial is one run to make.
type Trial struct {
	Round int    // from 1
	Mode  string // one of those compared
}

// Plan returns the runs in the order to make them.
func Plan(modes []string, rounds int) []Trial {
	var plan []Trial
	for round := range rounds {
		order := slices.Clone(modes)
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, mode := range order {
			plan = append(plan, Trial{Round: round + 1, Mode: mode})
		}
	}
	return plan
}

// Figure is what one run came to.
type Figure struct {
	Trial
	Value float64
}

// OfMode returns the spread of one mode's figures.
func OfMode(figures []Figure, mode string) measure.Spread {
	var values []float64
	for _, f := range figures {
		if f.Mode == mode {
			values = append(values, f.Value)
		}
	}
	return measure.SpreadOf(values)
}

// Ratio is how much higher the figures of one mode are than those of another.
type Ratio struct {
	Mode string `json:"mode"`
	To   string `json:"to"`
	measure.Spread
}

// Ratios compares each mode with each reference that has figures, round by round.
func Ratios(figures []Figure, modes, references []string) []Ratio {
	var all []Ratio
	for _, to := range references {
		for _, mode := range modes {
			if mode == to {
				continue
			}
			var values []float64
			for _, f := range figures {
				base := slices.IndexFunc(figures, func(b Figure) bool { return b.Mode == to && b.Round == f.Round })
				if f.Mode == mode && base >= 0 && figures[base].Value > 0 {
					values = append(values, f.Value/figures[base].Value)
				}
			}
			if len(values) > 0 {
				all = append(all, Ratio{Mode: mode, To: to, Spread: measure.SpreadOf(values)})
			}
		}
	}
	return all
}
