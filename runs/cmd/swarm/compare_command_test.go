package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/bench"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

func resultOf(endpoint string, rate float64) *load.Result {
	cfg := load.DefaultConfig()
	cfg.Endpoint = endpoint
	return &load.Result{
		Config: cfg, Started: time.Now(), Seconds: 10, RunsFinished: int64(cfg.Runs), Settled: true,
		RPCs:    []measure.RPC{{Name: trial.Updates, Calls: 100, Rate: rate, Latency: measure.Summary{Count: 100, P95: 1000 / rate}}},
		Watches: []load.WatchResult{{Stream: "WatchActions", Watchers: 30}},
	}
}

func writeJSON(t *testing.T, name string, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o644))
	return path
}

func TestCompareTwoEndpoints(t *testing.T) {
	before := writeJSON(t, "before.json", resultOf("http://one:8090", 100))
	after := writeJSON(t, "after.json", resultOf("http://two:8090", 700))
	page, svg := filepath.Join(t.TempDir(), "c.html"), filepath.Join(t.TempDir(), "c.svg")
	out, err := execute(t.Context(), "compare", before, after, "--report", page, "--svg", svg)
	require.NoError(t, err)
	for _, want := range []string{
		"two endpoints compared", "before: http://one:8090 on ", "after: http://two:8090 on ", "after ÷ before", "valid: in every trial no call failed",
	} {
		assert.Contains(t, out, want)
	}
	assert.Regexp(t, `status updates +/s +100 +700 +7\n`, out)
	assert.NotContains(t, out, "beware")
	for file, want := range map[string]string{page: "after ÷ before", svg: "</svg>"} {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(content), want)
	}
}

func TestCompareSaysWhatCannotBeCompared(t *testing.T) {
	good := writeJSON(t, "good.json", resultOf("http://one:8090", 100))
	other := resultOf("http://two:8090", 100)
	other.Config.Actions++
	out, err := execute(t.Context(), "compare", good, writeJSON(t, "other.json", other))
	require.NoError(t, err)
	assert.Contains(t, out, "beware: the two loads were not the same")

	other.Watches[0].Never = 3
	_, err = execute(t.Context(), "compare", good, writeJSON(t, "never.json", other))
	var unclean uncleanError
	require.ErrorAs(t, err, &unclean)
	require.ErrorContains(t, err, "1 of 2 trials are void, the first (round 1, never) because: 3 of 30 watchers did not see the terminal phase")

	_, err = execute(t.Context(), "compare", good, good)
	require.ErrorContains(t, err, "is compared with itself")
	_, err = execute(t.Context(), "compare", good, filepath.Join(t.TempDir(), "none.json"))
	require.ErrorContains(t, err, "none.json: no such file")
	_, err = execute(t.Context(), "compare", good, writeJSON(t, "set.json", map[string]string{"title": "x"}))
	require.ErrorContains(t, err, "set.json: is not what swarm --json prints")
	_, err = execute(t.Context(), "compare", good)
	require.ErrorContains(t, err, "accepts 2 arg(s), received 1")
	_, err = execute(t.Context(), "compare", good, good, "--svg", "/nowhere/at/all.svg")
	require.ErrorContains(t, err, "svg: open /nowhere/at/")
}

func TestBenchFromAFile(t *testing.T) {
	saved := writeJSON(t, "bench.json", trial.Set{
		Title: "notify modes compared", Command: "swarm bench --rtt=4ms", Sides: []trial.Side{{Name: "serial"}},
		Trials: []*trial.Trial{{Side: "serial", Round: 1, Load: resultOf("http://127.0.0.1:1", 50)}},
	})
	out, err := execute(t.Context(), "bench", "--from", saved)
	require.NoError(t, err)
	assert.Contains(t, out, "\n  swarm bench --rtt=4ms\n", "as it was measured")

	out, err = execute(t.Context(), "bench", "--from", saved, "--json")
	require.NoError(t, err)
	var back trial.Set
	require.NoError(t, json.Unmarshal([]byte(out), &back))
	assert.Len(t, back.Trials, 1)

	for want, content := range map[string]any{
		"is not what swarm bench --save writes": resultOf("http://one:8090", 1),
		"has a trial without a load":            trial.Set{Sides: []trial.Side{{Name: "a"}}, Trials: []*trial.Trial{{Side: "a"}}},
		"is no JSON that swarm has written":     "text",
	} {
		_, err = execute(t.Context(), "bench", "--from", writeJSON(t, "bad.json", content))
		require.ErrorContains(t, err, "bad.json: "+want)
	}
}

func TestBenchNamesWhatIsWrongBeforeItMeasures(t *testing.T) {
	for want, args := range map[string][]string{
		`modes: "fast" is none of`:                   {"--modes", "fast"},
		"repeat: 0 is not between":                   {"--repeat", "0"},
		"report: open /nowhere/":                     {"--report", "/nowhere/x.html"},
		`unknown command "serial" for "swarm bench"`: {"serial"},
		"concurrency: 0 is not between 1 and 4096":   {"--concurrency", "0"},
		`invalid argument "soon" for "--rtt" flag: `: {"--rtt", "soon"},
		"unknown flag: --endpoint":                   {"--endpoint", "http://x"},
	} {
		_, err := execute(t.Context(), append([]string{"bench"}, args...)...)
		require.ErrorContains(t, err, want)
	}
}

func TestASizeOfOnesOwnLiftsTheTimeBox(t *testing.T) {
	for args, want := range map[string]time.Duration{
		"":                              15 * time.Second,
		"--k=25 --n=2000":               0,
		"--n=2000":                      0,
		"--k=25 --duration=3s":          3 * time.Second,
		"--duration=3s --concurrency=9": 3 * time.Second,
	} {
		cfg := bench.DefaultConfig()
		flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
		benchFlags(flags, &cfg)
		require.NoError(t, flags.Parse(strings.Fields(args)))
		liftTimeBox(flags, &cfg)
		assert.Equal(t, want, cfg.Load.Duration, args)
	}
}

func TestTheCommandLineCanBeCalledAgain(t *testing.T) {
	cmd := command()
	found, _, err := cmd.Find([]string{"bench"})
	require.NoError(t, err)
	require.NoError(t, found.ParseFlags([]string{"--modes", "off,serial", "--svg", "it's here.svg", "--rtt", "2ms"}))
	assert.Equal(t, `swarm bench --modes=off,serial --svg='it'\''s here.svg' --rtt=2ms`, commandLine(found))
}

func TestEveryFlagOfTheSubcommandsIsDescribed(t *testing.T) {
	for _, sub := range []string{"bench", "compare"} {
		out, err := execute(t.Context(), sub, "--help")
		require.NoError(t, err)
		cmd, _, err := command().Find([]string{sub})
		require.NoError(t, err)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			assert.NotEmpty(t, f.Usage, f.Name)
			assert.Contains(t, out, "--"+f.Name)
		})
	}
}
