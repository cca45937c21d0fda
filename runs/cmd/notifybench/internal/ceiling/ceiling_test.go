package ceiling

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

func bench(t *testing.T, cfg Config) *Bench {
	t.Helper()
	require.NoError(t, cfg.Validate())
	srv, err := server.Open(t.Context(), server.Config{DSN: dbtest.DSN(t)}, server.Needs{Connections: cfg.Connections(), Procedures: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	return New(cfg, srv)
}

func TestEveryFormIsHeard(t *testing.T) {
	cfg := DefaultConfig()
	cfg.N, cfg.Rounds = 1003, 2 // a statement of the Sender and a bit
	r, err := bench(t, cfg).Run(t.Context(), report.Head{Server: server.Facts{RTT: 0.0001}})
	require.NoError(t, err)
	require.NoError(t, r.Verdict())
	require.Len(t, r.Runs, 2*len(Forms))
	for _, run := range r.Runs {
		assert.Equal(t, 1003, run.Heard, run.Mode)
		assert.GreaterOrEqual(t, run.HeardMs, run.SentMs)
	}
	forms := map[string]Form{}
	for _, f := range r.Forms {
		assert.Equal(t, 2, f.SentMs.Runs, f.Mode)
		forms[f.Mode] = f
	}
	assert.Equal(t, []int{1003, 2, 1, 1}, []int{forms[Single].RoundTrips, forms[MultiCall].RoundTrips, forms[PipelineTxs].RoundTrips, forms[Unnest].RoundTrips})
	assert.Equal(t, []int{1003, 2, 1003, 1}, []int{forms[Single].Transactions, forms[MultiCall].Transactions, forms[PipelineTxs].Transactions, forms[Pipeline].Transactions})

	var out strings.Builder
	require.NoError(t, r.Text(&out))
	assert.Contains(t, out.String(), "every notification was heard once")
	assert.Contains(t, out.String(), "A notification takes the server")
	for _, form := range Forms {
		assert.Contains(t, out.String(), descriptions[form])
	}
}

func TestInterrupted(t *testing.T) {
	cfg := DefaultConfig()
	cfg.N, cfg.Rounds = 10, 1000
	b := bench(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for at := b.at.Load(); at == nil || at.Round < 3; at = b.at.Load() {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	r, err := b.Run(ctx, report.Head{})
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	assert.GreaterOrEqual(t, len(r.Runs), 2*len(Forms))
	assert.Less(t, len(r.Runs), 1000*len(Forms))
}

func TestVerdict(t *testing.T) {
	r := &Result{Config: Config{N: 3, Modes: []string{Single}}}
	require.ErrorContains(t, r.Verdict(), "no run was finished")
	r.Runs = []Run{{Round: 1, Mode: Single, Heard: 3, SentMs: 1}}
	require.NoError(t, r.Verdict())
	r.Runs = append(r.Runs, Run{Round: 2, Mode: Single, Heard: 2, SentMs: 1}, Run{Round: 3, Mode: Single, Heard: 3, Extra: 1, SentMs: 1}, Run{Round: 4, Mode: Single, Failure: "cut off"})
	require.EqualError(t, r.Verdict(), "not every notification was heard once: round 2, single: 2 of 3 heard, 0 too many; round 3, single: 3 of 3 heard, 1 too many; round 4, single: cut off")
	r.complete()
	assert.Equal(t, 1, r.Forms[0].SentMs.Runs, "void runs do not count")
	var out strings.Builder
	require.NoError(t, r.Text(&out))
	assert.Contains(t, out.String(), "VOID: not every notification")
}

func TestConfig(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	for want, change := range map[string]func(*Config){
		"n: 0 is not between 1 and 100000":    func(c *Config) { c.N = 0 },
		"repeat: -1 is not between 1 and":     func(c *Config) { c.Rounds = -1 },
		"mode: none is given, there are serv": func(c *Config) { c.Modes = nil },
		`mode: "x" is none of server-loop`:    func(c *Config) { c.Modes = []string{"x"} },
		"mode: single is named twice":         func(c *Config) { c.Modes = []string{Single, Single} },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		require.ErrorContains(t, cfg.Validate(), want)
	}
}
