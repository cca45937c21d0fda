package report

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/machine"
	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

func latencies(ms float64) measure.Summary {
	h := measure.NewHistogram()
	for i := range 2000 {
		h.Record(time.Duration(ms * float64(time.Millisecond) * (0.5 + float64(i)/2000)))
	}
	return h.Summary()
}

// made is a trial of a mode in which a status update takes so many milliseconds.
func made(mode string, round int, ms float64, void ...string) *trial.Trial {
	t := &trial.Trial{
		Side: mode, Round: round, Void: void, LoadAverage: "0.10 0.20 0.30",
		Load: &load.Result{
			Config: load.DefaultConfig(), Seconds: 10, Settled: true, SettleSeconds: 0.5, RunsFinished: 4, ActionsFinished: 400,
			Written: load.Written{Actions: 404, Ended: 404, Events: 1600},
			RPCs: []measure.RPC{
				{Name: "RecordAction", Calls: 404, Rate: 40, Latency: latencies(ms)},
				{Name: trial.Updates, Calls: 1208, Rate: 50_000 / ms, Latency: latencies(ms)},
			},
			Watches: []load.WatchResult{{Stream: "WatchActions", Watchers: 404, Lag: latencies(2 * ms)}, {Stream: "WatchRuns", Watchers: 4, Lag: latencies(ms)}},
		},
		Wire: &trial.Wire{Seconds: 10.5, Pump: trial.Traffic{Statements: 100, RoundTrips: 100}, Listener: trial.Traffic{Notifications: 2000}},
		CPU:  &trial.CPU{Service: 3, Database: 2, Client: 4},
	}
	t.Rows = &trial.Rows{Expected: t.Load.Written, Stored: t.Load.Written}
	for i := range 40 {
		pending := float64(i % 7)
		t.Samples = append(t.Samples, trial.Sample{Seconds: float64(i) / 4, Notifications: int64(50 * i), Behind: int64(i % 5), Pending: &pending})
	}
	if mode == "off" {
		t.Wire.Pump, t.Wire.Listener = trial.Traffic{}, trial.Traffic{}
		t.Load.Watches = []load.WatchResult{{Stream: "WatchActions", Watchers: 404, Never: 404}}
	}
	return t
}

func madeSet() *trial.Set {
	return &trial.Set{
		Title: "modes <compared>", Command: "swarm bench --repeat=2", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 77,
		Machine: machine.Info{OS: "linux", Arch: "amd64", CPU: "Some CPU", CPUs: 2, Go: "go1"},
		Facts:   []trial.Fact{{Name: "service to database", Value: "4.1 ms per round trip"}, {Name: "PostgreSQL", Value: "15.9"}},
		Sides:   []trial.Side{{Name: "serial"}, {Name: "batched"}, {Name: "off", Unwatched: true}},
		Pairs:   []trial.Pair{{Subject: "batched", Reference: "serial"}, {Subject: "batched", Reference: "off"}},
		Trials: []*trial.Trial{
			made("off", 1, 20), made("serial", 1, 200), made("batched", 1, 25),
			made("batched", 2, 20), made("off", 2, 20), made("serial", 2, 400),
		},
	}
}

func TestSetText(t *testing.T) {
	var out strings.Builder
	require.NoError(t, SetText(&out, madeSet()))
	text := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
	for _, want := range []string{
		"modes <compared>: 2026-01-02 03:04 UTC\n swarm bench --repeat=2\n service to database: 4.1 ms per round trip\n",
		"machine: linux/amd64, 2 × Some CPU, go1\n",
		" status updates /s 188 (125–250) 2250 (2000–2500) 2500 (2500–2500) 14 (8–20) 0.90 (0.80–1)\n",
		" notifications per round trip 20 (20–20) 20 (20–20) – 1 (1–1) –\n",
		" watchers that never saw the end 0 (0–0) 0 (0–0) – – –\n",
		" UpdateActionStatus batched 1208 0 2250 ",
		" WatchActions batched 404 0 ",
		"\n 2 1 serial 10 250 ",
		" 404 – 2004/2004 0.10 0.20 0.30 ",
		"valid: in every trial rows stored = rows expected, no call failed, every watcher saw the end.",
		"In mode off nobody is told anything",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "WatchActions off")
}

func TestVoidTrialsAreSaidAndLeftOut(t *testing.T) {
	s := madeSet()
	s.Trials = append(s.Trials, made("batched", 3, 1, "coverage 0.9", "2 calls failed"))
	s.Interrupted = true
	var out strings.Builder
	require.NoError(t, SetText(&out, s))
	assert.Contains(t, out.String(), "VOID, and in no figure: round 3, batched: coverage 0.9; 2 calls failed\n")
	assert.Contains(t, out.String(), "interrupted after 7 trials\n")
	assert.NotContains(t, out.String(), "valid: ")
	assert.Contains(t, out.String(), "2250 (2000–2500)")
}

func TestJSONKeepsEverything(t *testing.T) {
	var out strings.Builder
	require.NoError(t, SetJSON(&out, madeSet()))
	var back trial.Set
	require.NoError(t, json.Unmarshal([]byte(out.String()), &back))
	assert.Equal(t, madeSet(), &back)
}

// outside are the ways in which a page gets at other files.
var outside = regexp.MustCompile(`(?i)(src|href)\s*=|url\(|@import|<script|<link|https?://`)

func TestPageNeedsNoOtherFile(t *testing.T) {
	var out strings.Builder
	require.NoError(t, Page(&out, madeSet()))
	page := strings.ReplaceAll(out.String(), `xmlns="http://www.w3.org/2000/svg"`, "")
	assert.Empty(t, outside.FindAllString(page, -1))
	for _, want := range []string{
		"<title>modes &lt;compared&gt;", "swarm bench --repeat=2", "4.1 ms per round trip", "Some CPU", "14 ×",
		"Pending in the pump", "Notifications delivered", "Watchers behind", "percentile", "valid: in every trial",
	} {
		assert.True(t, strings.Contains(page, want), want)
	}
	assert.Equal(t, 7, strings.Count(page, "<figure>"))
	assert.Equal(t, 1, strings.Count(page, `class="verdict"`))
}

func TestPageOfVoidFigures(t *testing.T) {
	s := madeSet()
	for _, one := range s.Trials {
		one.Void = []string{"rows <differ>"}
	}
	var out strings.Builder
	require.NoError(t, Page(&out, s))
	assert.Contains(t, out.String(), `class="verdict void"`)
	assert.Contains(t, out.String(), "rows &lt;differ&gt;")
}

func TestAnEndpointThatIsNotOursHasFewerFigures(t *testing.T) {
	s := madeSet()
	s.Facts = nil
	for _, one := range s.Trials {
		one.Rows, one.Wire, one.CPU, one.Samples, one.LoadAverage = nil, nil, nil, nil, ""
	}
	for name, write := range map[string]func(*strings.Builder) error{
		"text": func(b *strings.Builder) error { return SetText(b, s) },
		"page": func(b *strings.Builder) error { return Page(b, s) },
	} {
		var out strings.Builder
		require.NoError(t, write(&out), name)
		assert.NotContains(t, out.String(), "CPU of", name)
		assert.NotContains(t, out.String(), "pump: round trips", name)
		assert.NotContains(t, out.String(), "rows stored", name)
		assert.Contains(t, out.String(), "status updates", name)
	}
}

func TestNoTrialAtAll(t *testing.T) {
	s := madeSet()
	s.Trials, s.Interrupted = nil, true
	var out strings.Builder
	require.NoError(t, SetText(&out, s))
	require.NoError(t, Page(&out, s))
	require.NoError(t, Picture(&out, s))
}

func TestPicture(t *testing.T) {
	var out strings.Builder
	require.NoError(t, Picture(&out, madeSet()))
	for _, want := range []string{
		"<?xml", "Status updates", "less is better", "2250", "never: nobody is told", "database at 4.1 ms per round trip",
		"median and range of 2 rounds", "2 × Some CPU",
	} {
		assert.True(t, strings.Contains(out.String(), want), want)
	}
}

func TestFigures(t *testing.T) {
	for want, value := range map[string]float64{
		"0": 0, "3": 3, "1234": 1234.4, "123": 123.4, "12.3": 12.34, "1.23": 1.234, "0.0123": 0.01234, "0.12": 0.123, "-5.50": -5.5,
	} {
		assert.Equal(t, want, figure(value, true))
	}
	assert.Equal(t, none, figure(3, false))
}
