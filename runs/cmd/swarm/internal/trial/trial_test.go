package trial

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
)

// made is a trial of a side whose status updates came at a rate.
func made(side string, round int, rate float64, void ...string) *Trial {
	return &Trial{
		Side: side, Round: round, Void: void,
		Load: &load.Result{
			Seconds: 10, Settled: true, SettleSeconds: 2,
			RPCs: []measure.RPC{{Name: Updates, Calls: int64(10 * rate), Rate: rate, Latency: measure.Summary{Count: 1, P95: 1000 / rate}}},
			Watches: []load.WatchResult{
				{Stream: "WatchActions", Watchers: 9, Never: 1, Lag: measure.Summary{Count: 8, P50: 5}},
			},
		},
	}
}

func madeSet() *Set {
	return &Set{
		Sides: []Side{{Name: "old"}, {Name: "new"}, {Name: "none", Unwatched: true}},
		Trials: []*Trial{
			made("old", 1, 100), made("new", 1, 900), made("none", 1, 1000),
			made("new", 2, 1200), made("none", 2, 1000), made("old", 2, 200),
			made("none", 3, 1100), made("new", 3, 1, "a call failed"), made("old", 3, 110),
		},
	}
}

func TestMediansLeaveVoidTrialsOut(t *testing.T) {
	s := madeSet()
	assert.Equal(t, measure.Spread{Runs: 3, Median: 110, Lowest: 100, Highest: 200}, s.Spread("old", UpdateRate))
	assert.Equal(t, measure.Spread{Runs: 2, Median: 1050, Lowest: 900, Highest: 1200}, s.Spread("new", UpdateRate))
	assert.Zero(t, s.Spread("other", UpdateRate))
	assert.Len(t, s.Void(), 1)
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	ratio := madeSet().Ratio(Pair{Subject: "new", Reference: "old"}, UpdateRate)
	assert.Equal(t, measure.Spread{Runs: 2, Median: 7.5, Lowest: 6, Highest: 9}, ratio, "9 in the first round, 6 in the second, none in the third")
}

func TestFiguresOfWatchersNeedWatchersThatAreTold(t *testing.T) {
	s := madeSet()
	assert.Equal(t, 3, s.Spread("old", LagP50).Runs)
	assert.Equal(t, 1.0, s.Spread("old", Never).Median)
	assert.Zero(t, s.Spread("none", LagP50))
	assert.Zero(t, s.Spread("none", Never))
	assert.Zero(t, s.Ratio(Pair{Subject: "new", Reference: "none"}, Settle))
	assert.Equal(t, 3, s.Spread("none", UpdateRate).Runs)
}

func TestWhatWasNotMeasuredIsNoZero(t *testing.T) {
	one := made("old", 1, 100)
	for _, f := range []Figure{Notifications, Statements, RoundTrips, PerTrip, ServiceCPU, DatabaseCPU, ClientCPU, CPUPerCall} {
		_, ok := f.Of(one)
		assert.False(t, ok, f.Name)
	}
	one.Wire = &Wire{Seconds: 12, Pump: Traffic{Statements: 24, RoundTrips: 24}, Listener: Traffic{Notifications: 2400}}
	one.CPU = &CPU{Service: 6, Database: 4, Client: 3}
	for want, f := range map[float64]Figure{200: Notifications, 2: Statements, 100: PerTrip, 0.5: ServiceCPU, 0.25: ClientCPU, 10: CPUPerCall} {
		got, ok := f.Of(one)
		assert.True(t, ok, f.Name)
		assert.InDelta(t, want, got, 1e-9, f.Name)
	}
	one.Wire.Pump.RoundTrips = 0
	_, ok := PerTrip.Of(one)
	assert.False(t, ok, "per round trip, without one")
}

func TestEveryFigureHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Figures {
		assert.False(t, seen[f.Name], f.Name)
		seen[f.Name] = true
	}
}
