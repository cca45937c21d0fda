package fanout

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

func tiny(modes ...string) Config {
	cfg := DefaultConfig()
	cfg.Listeners, cfg.Notifiers, cfg.Channels, cfg.Duration, cfg.Rounds, cfg.Modes = 5, 3, 2, 100*time.Millisecond, 1, modes
	return cfg
}

func bench(t *testing.T, dsn string, cfg Config) *Bench {
	t.Helper()
	require.NoError(t, cfg.Validate())
	srv, err := server.Open(t.Context(), server.Config{DSN: dsn}, server.Needs{Connections: cfg.Connections()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	return New(cfg, srv)
}

func TestEveryModeIsCorrect(t *testing.T) {
	cfg := tiny(Modes...)
	cfg.Rounds = 2
	r, err := bench(t, dbtest.DSN(t), cfg).Run(t.Context(), report.Head{})
	require.NoError(t, err)
	require.NoError(t, r.Verdict())
	require.Len(t, r.Runs, 4)
	for _, run := range r.Runs {
		assert.Positive(t, run.Sent)
		// Every payload has two or three listeners.
		assert.GreaterOrEqual(t, run.Verdict.Received, 2*run.Sent)
		assert.LessOrEqual(t, run.Verdict.Received, 3*run.Sent)
		assert.Equal(t, run.Verdict.Expected, run.Verdict.Received)
		assert.Equal(t, run.Verdict.Received, run.Latency.Count)
		var counted int64
		for _, line := range run.Histogram {
			counted += line.Count
		}
		assert.Equal(t, run.Verdict.Received, counted)
		if run.Mode == Single {
			assert.Equal(t, run.Sent, run.Statements)
		} else {
			assert.LessOrEqual(t, run.Statements, run.Sent)
		}
	}
	require.Len(t, r.Ratios, 1)
	assert.Equal(t, 2, r.Ratios[0].Runs)

	var out strings.Builder
	require.NoError(t, r.Text(&out))
	for _, want := range []string{"correct: every listener heard", "batched / single", "single, all runs", "0.1–1", "payloads/statement"} {
		assert.Contains(t, out.String(), want)
	}
	out.Reset()
	require.NoError(t, report.JSON(&out, r))
	var back Result
	require.NoError(t, json.Unmarshal([]byte(out.String()), &back))
	assert.Equal(t, r.Runs, back.Runs)
}

// listening returns the backends that listen and have heard something, once there are as many as expected.
func listening(t *testing.T, srv *server.Server, b *Bench, n int) []int {
	t.Helper()
	conn, err := srv.Connect(t.Context(), nil)
	require.NoError(t, err)
	defer server.Disconnect(conn)
	var pids []int
	require.Eventually(t, func() bool {
		err := conn.QueryRow(t.Context(), "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE query LIKE 'LISTEN notifybench%' AND datname = current_database()").Scan(&pids)
		return err == nil && len(pids) == n && b.received.Load() > 0
	}, time.Minute, 5*time.Millisecond)
	return pids
}

type outcome struct {
	*Result
	err error
}

func start(ctx context.Context, b *Bench) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		r, err := b.Run(ctx, report.Head{})
		ended <- outcome{r, err}
	}()
	return ended
}

func TestAListenerThatIsCutOffVoidsTheRun(t *testing.T) {
	cfg := tiny(Batched)
	cfg.Duration = 2 * time.Second
	b := bench(t, dbtest.DSN(t), cfg)
	ended := start(t.Context(), b)
	pids := listening(t, b.srv, b, cfg.Listeners)
	conn, err := b.srv.Connect(t.Context(), nil)
	require.NoError(t, err)
	defer server.Disconnect(conn)
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pids[0])
	require.NoError(t, err)
	r := <-ended
	require.NoError(t, r.err)
	v := r.Runs[0].Verdict
	assert.Equal(t, 1, v.Unfinished)
	assert.Positive(t, v.Lost)
	require.ErrorContains(t, r.Verdict(), "57P01")
	assert.Zero(t, r.Modes[0].SentPerSecond.Runs, "a void run does not count")
	var out strings.Builder
	require.NoError(t, r.Text(&out))
	assert.Contains(t, out.String(), "WRONG: not every listener heard every payload once and in order: round 1, batched: ")
}

func TestAListenerThatHangsIsNotWaitedForForEver(t *testing.T) {
	private := dbtest.StartServer(t)
	cfg := tiny(Single)
	cfg.Duration, cfg.Settle = time.Second, time.Second
	b := bench(t, private.DSN(), cfg)
	ended := start(t.Context(), b)
	resume := private.PauseBackend(listening(t, b.srv, b, cfg.Listeners)[0])
	defer resume()
	r := <-ended
	require.NoError(t, r.err)
	assert.Equal(t, 1, r.Runs[0].Verdict.Unfinished)
	require.ErrorContains(t, r.Verdict(), "not at the end 1s after the last send")
}

func TestInterrupted(t *testing.T) {
	cfg := tiny(Modes...)
	cfg.Duration, cfg.Rounds = time.Hour, 3
	b := bench(t, dbtest.DSN(t), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := start(ctx, b)
	listening(t, b.srv, b, cfg.Listeners)
	cancel()
	r := <-ended
	require.NoError(t, r.err)
	assert.True(t, r.Interrupted)
	require.Len(t, r.Runs, 1)
	require.NoError(t, r.Verdict(), "what was sent until then is heard")
}

func TestTheServerGoesAway(t *testing.T) {
	private := dbtest.StartServer(t)
	cfg := tiny(Single)
	cfg.Duration = time.Hour
	b := bench(t, private.DSN(), cfg)
	ended := start(t.Context(), b)
	listening(t, b.srv, b, cfg.Listeners)
	private.Stop(dbtest.Immediate)
	r := <-ended
	require.NoError(t, r.err)
	require.ErrorContains(t, r.Verdict(), "notifier ")
}

func TestPayloads(t *testing.T) {
	notifier, number, sent, ok := parse(format(3, 1<<40, 123*time.Millisecond), 4)
	assert.True(t, ok)
	assert.Equal(t, []any{3, int64(1 << 40), 123 * time.Millisecond}, []any{notifier, number, sent})
	for _, bad := range []string{"", "1", "1 2", "1 2 x", "4 1 1", "-1 1 1", "1 -1 1", "1 2 3 4"} {
		_, _, _, ok := parse(bad, 4)
		assert.False(t, ok, bad)
	}
}

func TestConfig(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	for want, change := range map[string]func(*Config){
		"listeners: 0 is not between 1 and 10000":                     func(c *Config) { c.Listeners = 0 },
		"notifiers: 10001 is not between":                             func(c *Config) { c.Notifiers = 10001 },
		"channels: nobody would hear some of the 11 channels with 10": func(c *Config) { c.Channels = 11 },
		"pending: 0 is not between":                                   func(c *Config) { c.Pending = 0 },
		"repeat: 0 is not between":                                    func(c *Config) { c.Rounds = 0 },
		"duration: 1ms is not between 10ms and 1h":                    func(c *Config) { c.Duration = time.Millisecond },
		"settle: 0s is not between 1s and 1h":                         func(c *Config) { c.Settle = 0 },
		"mode: none is given, there are single, batched":              func(c *Config) { c.Modes = nil },
		`mode: "x" is none of single, batched`:                        func(c *Config) { c.Modes = []string{"x"} },
		"mode: single is named twice":                                 func(c *Config) { c.Modes = []string{Single, Single} },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		require.ErrorContains(t, cfg.Validate(), want)
	}
}
