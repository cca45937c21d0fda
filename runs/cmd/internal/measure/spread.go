package measure

import "slices"

// Spread is the median of several runs, and the bounds that they lie between.
type Spread struct {
	Runs    int     `json:"runs"` // with none of them the others are 0
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

// SpreadOf returns the spread of the values, a value for each run, in any order.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Spread{Runs: n, Median: (v[(n-1)/2] + v[n/2]) / 2, Lowest: v[0], Highest: v[n-1]}
}
