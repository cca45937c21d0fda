package trial

import (
	"slices"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
)

// Updates is the RPC that figures without the name of one are of.
const Updates = "UpdateActionStatus"

// Figure is one number that every trial has, or lacks.
type Figure struct {
	Name string
	Unit string
	// Of returns the number; false when the trial has none.
	Of func(*Trial) (float64, bool)
	// Watching: it is about watchers, and says nothing of a side whose watchers are told nothing.
	Watching bool
}

// The figures to judge by.
var (
	UpdateRate = Figure{Name: "status updates", Unit: "/s", Of: func(t *Trial) (float64, bool) { return RPCOf(t, Updates).Rate, true }}
	UpdateMean = updateLatency("mean", func(s measure.Summary) float64 { return s.Mean })
	UpdateP50  = updateLatency("p50", func(s measure.Summary) float64 { return s.P50 })
	UpdateP95  = updateLatency("p95", func(s measure.Summary) float64 { return s.P95 })
	UpdateP99  = updateLatency("p99", func(s measure.Summary) float64 { return s.P99 })

	RunsFinished    = Figure{Name: "runs finished", Unit: "", Of: func(t *Trial) (float64, bool) { return float64(t.Load.RunsFinished), true }}
	ActionsFinished = Figure{Name: "actions finished", Unit: "/s", Of: func(t *Trial) (float64, bool) {
		return over(float64(t.Load.ActionsFinished), t.Load.Seconds)
	}}

	Notifications = wire("notifications", "/s", func(w *Wire) float64 { return float64(w.Listener.Notifications) })
	Statements    = wire("pump: statements", "/s", func(w *Wire) float64 { return float64(w.Pump.Statements) })
	RoundTrips    = wire("pump: round trips", "/s", func(w *Wire) float64 { return float64(w.Pump.RoundTrips) })
	PerTrip       = Figure{Name: "notifications per round trip", Unit: "", Of: func(t *Trial) (float64, bool) {
		if t.Wire == nil {
			return 0, false
		}
		return over(float64(t.Wire.Listener.Notifications), float64(t.Wire.Pump.RoundTrips))
	}}

	LagP50 = lag("p50", func(s measure.Summary) float64 { return s.P50 })
	LagP99 = lag("p99", func(s measure.Summary) float64 { return s.P99 })
	Settle = Figure{Name: "settled after the last answer", Unit: "s", Of: func(t *Trial) (float64, bool) { return t.Load.SettleSeconds, t.Load.Settled }, Watching: true}
	Never  = Figure{Name: "watchers that never saw the end", Unit: "", Of: func(t *Trial) (float64, bool) {
		never, _ := t.Load.Never()
		return float64(never), true
	}, Watching: true}

	ServiceCPU  = cpu("service", func(c *CPU) float64 { return c.Service })
	DatabaseCPU = cpu("database", func(c *CPU) float64 { return c.Database })
	ClientCPU   = cpu("load and proxy", func(c *CPU) float64 { return c.Client })
	CPUPerCall  = Figure{Name: "CPU of service and database per call", Unit: "ms", Of: func(t *Trial) (float64, bool) {
		if t.CPU == nil {
			return 0, false
		}
		var calls float64
		for _, rpc := range t.Load.RPCs {
			calls += float64(rpc.Calls)
		}
		return over(1000*(t.CPU.Service+t.CPU.Database), calls)
	}}
)

// Figures are all of them, in the order to show them in.
var Figures = []Figure{
	UpdateRate, UpdateMean, UpdateP50, UpdateP95, UpdateP99, ActionsFinished, RunsFinished,
	Notifications, Statements, RoundTrips, PerTrip,
	LagP50, LagP99, Settle, Never,
	ServiceCPU, DatabaseCPU, ClientCPU, CPUPerCall,
}

func over(amount, by float64) (float64, bool) {
	if by == 0 {
		return 0, false
	}
	return amount / by, true
}

func updateLatency(name string, of func(measure.Summary) float64) Figure {
	return Figure{Name: Updates + " " + name, Unit: "ms", Of: func(t *Trial) (float64, bool) {
		latency := RPCOf(t, Updates).Latency
		return of(latency), latency.Count > 0
	}}
}

func wire(name, unit string, of func(*Wire) float64) Figure {
	return Figure{Name: name, Unit: unit, Of: func(t *Trial) (float64, bool) {
		if t.Wire == nil {
			return 0, false
		}
		return over(of(t.Wire), t.Wire.Seconds)
	}}
}

func lag(name string, of func(measure.Summary) float64) Figure {
	return Figure{Name: "watch lag of actions " + name, Unit: "ms", Of: func(t *Trial) (float64, bool) {
		lag := WatchOf(t, "WatchActions").Lag
		return of(lag), lag.Count > 0
	}, Watching: true}
}

func cpu(whose string, of func(*CPU) float64) Figure {
	return Figure{Name: "CPU of " + whose, Unit: "cores", Of: func(t *Trial) (float64, bool) {
		if t.CPU == nil {
			return 0, false
		}
		return over(of(t.CPU), t.Load.Seconds+t.Load.SettleSeconds)
	}}
}

// RPCOf returns what a trial measured of an RPC, zero when it was never called.
func RPCOf(t *Trial, name string) measure.RPC {
	i := slices.IndexFunc(t.Load.RPCs, func(r measure.RPC) bool { return r.Name == name })
	if i < 0 {
		return measure.RPC{Name: name}
	}
	return t.Load.RPCs[i]
}

// WatchOf returns what a trial measured of a stream, zero when there was none.
func WatchOf(t *Trial, stream string) load.WatchResult {
	i := slices.IndexFunc(t.Load.Watches, func(w load.WatchResult) bool { return w.Stream == stream })
	if i < 0 {
		return load.WatchResult{Stream: stream}
	}
	return t.Load.Watches[i]
}

// Spread of a figure over the trials of a side.
func (s *Set) Spread(side string, f Figure) measure.Spread {
	var values []float64
	for _, t := range s.Of(side) {
		if value, ok := s.value(t, f); ok {
			values = append(values, value)
		}
	}
	return measure.SpreadOf(values)
}

func (s *Set) value(t *Trial, f Figure) (float64, bool) {
	unwatched := slices.ContainsFunc(s.Sides, func(side Side) bool { return side.Name == t.Side && side.Unwatched })
	if f.Watching && unwatched {
		return 0, false
	}
	return f.Of(t)
}

// Ratio of a figure, subject by reference, within each round that has both.
func (s *Set) Ratio(p Pair, f Figure) measure.Spread {
	var values []float64
	for _, subject := range s.Of(p.Subject) {
		for _, reference := range s.Of(p.Reference) {
			a, okA := s.value(subject, f)
			b, okB := s.value(reference, f)
			if subject.Round == reference.Round && okA && okB && b != 0 {
				values = append(values, a/b)
			}
		}
	}
	return measure.SpreadOf(values)
}
