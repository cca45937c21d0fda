package stream

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
	cfg.Writers, cfg.Streams, cfg.Readers, cfg.Duration, cfg.Poll, cfg.Rounds, cfg.Modes = 3, 5, 2, 200*time.Millisecond, 50*time.Millisecond, 1, modes
	return cfg
}

func bench(t *testing.T, dsn string, cfg Config) *Bench {
	t.Helper()
	require.NoError(t, cfg.Validate())
	srv, err := server.Open(t.Context(), server.Config{DSN: dsn}, server.Needs{Connections: cfg.Connections(), Tables: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	return New(cfg, srv)
}

// leftBehind counts our schemas in the database.
func leftBehind(t *testing.T, b *Bench) (n int) {
	t.Helper()
	conn, err := b.srv.Connect(context.Background(), nil)
	require.NoError(t, err)
	defer server.Disconnect(conn)
	require.NoError(t, conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'notifybench%'").Scan(&n))
	return n
}

func TestEveryModeCoversEverything(t *testing.T) {
	for name, readers := range map[string]int{"fewer readers than streams": 2, "more readers than streams": 8} {
		t.Run(name, func(t *testing.T) {
			cfg := tiny(Modes...)
			cfg.Readers, cfg.Rounds = readers, 2
			cfg.Fallback, cfg.Settle = time.Hour, 2*time.Hour // nothing may hide behind it
			b := bench(t, dbtest.DSN(t), cfg)
			r, err := b.Run(t.Context(), report.Head{})
			require.NoError(t, err)
			require.NoError(t, r.Verdict())
			require.Len(t, r.Runs, 8)
			for _, run := range r.Runs {
				assert.Positive(t, run.Written, run.Mode)
				assert.InEpsilon(t, 1, run.Coverage, 1e-12)
				assert.Equal(t, run.Read, run.Latency.Count)
				assert.Equal(t, run.Written, run.WriteLatency.Count)
				if readers < cfg.Streams {
					assert.Equal(t, run.Written, run.Expected)
				} else {
					assert.Greater(t, run.Expected, run.Written)
				}
				assert.Equal(t, run.Mode == None, run.Polls > 0)
				assert.Equal(t, run.Mode == None, run.Notifications == 0)
				assert.Equal(t, run.Mode == Buffered, run.PumpStatements > 0)
				switch run.Mode {
				case InTx, Trigger:
					assert.Equal(t, run.Written, run.Notifications)
				case Buffered:
					assert.LessOrEqual(t, run.Notifications+run.Folded, run.Written)
				}
			}
			assert.Zero(t, leftBehind(t, b))

			var out strings.Builder
			require.NoError(t, r.Text(&out))
			for _, want := range []string{"coverage 1:", "buffered / intx", "buffered / none", "1.0000"} {
				assert.Contains(t, out.String(), want)
			}
			out.Reset()
			require.NoError(t, report.JSON(&out, r))
			var back Result
			require.NoError(t, json.Unmarshal([]byte(out.String()), &back))
			assert.Equal(t, r.Runs, back.Runs)
		})
	}
}

func TestRate(t *testing.T) {
	cfg := tiny(Buffered)
	cfg.Duration, cfg.Rate = time.Second, 50
	r, err := bench(t, dbtest.DSN(t), cfg).Run(t.Context(), report.Head{})
	require.NoError(t, err)
	require.NoError(t, r.Verdict())
	assert.LessOrEqual(t, r.Runs[0].Written, int64(51))
	assert.Positive(t, r.Runs[0].Written)
}

// The pump waits between statements, but not at the end, nor for long before the first.
func TestFlushInterval(t *testing.T) {
	cfg := tiny(Buffered)
	cfg.Duration, cfg.Flush, cfg.Fallback, cfg.Settle = time.Second, time.Minute, time.Hour, 2*time.Hour
	r, err := bench(t, dbtest.DSN(t), cfg).Run(t.Context(), report.Head{})
	require.NoError(t, err)
	require.NoError(t, r.Verdict())
	assert.EqualValues(t, 2, r.Runs[0].PumpStatements, "the first row at once, the others at the end")
	assert.Less(t, r.Runs[0].SettleSeconds, 50.0)
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

func busy(t *testing.T, b *Bench) {
	t.Helper()
	require.Eventually(t, func() bool { return b.read.Load() > 10 }, time.Minute, time.Millisecond)
}

// Without its listener, all that the readers have is the fallback: it finds everything, and the run is void all the same.
func TestTheFallbackFindsWhatNoNotificationTold(t *testing.T) {
	cfg := tiny(InTx)
	cfg.Duration, cfg.Fallback, cfg.Settle = 2*time.Second, 200*time.Millisecond, time.Minute
	b := bench(t, dbtest.DSN(t), cfg)
	ended := start(t.Context(), b)
	busy(t, b)
	require.NoError(t, b.srv.Execute(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN notifybench%' AND datname = current_database()"))
	r := <-ended
	require.NoError(t, r.err)
	run := r.Runs[0]
	assert.InEpsilon(t, 1, run.Coverage, 1e-12)
	assert.Positive(t, run.PolledRows)
	require.ErrorContains(t, r.Verdict(), "round 1, intx: listener: ")
	assert.Zero(t, r.Modes[0].WritesPerSecond.Runs, "a void run does not count")
	var out strings.Builder
	require.NoError(t, r.Text(&out))
	assert.Contains(t, out.String(), "VOID: not every row was read by every reader")
}

func TestInterruptedLeavesNothingBehind(t *testing.T) {
	cfg := tiny(Modes...)
	cfg.Duration, cfg.Rounds = time.Hour, 3
	b := bench(t, dbtest.DSN(t), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := start(ctx, b)
	busy(t, b)
	assert.Equal(t, 1, leftBehind(t, b))
	cancel()
	r := <-ended
	require.NoError(t, r.err)
	assert.True(t, r.Interrupted)
	require.Len(t, r.Runs, 1)
	require.NoError(t, r.Verdict(), "what was written until then is read")
	assert.Zero(t, leftBehind(t, b))
}

func TestTheServerGoesAway(t *testing.T) {
	private := dbtest.StartServer(t)
	cfg := tiny(Buffered)
	cfg.Duration, cfg.Fallback, cfg.Settle = time.Hour, 10*time.Millisecond, time.Second
	cfg.Poll = cfg.Fallback
	b := bench(t, private.DSN(), cfg)
	ended := start(t.Context(), b)
	busy(t, b)
	private.Stop(dbtest.Immediate)
	r := <-ended
	require.ErrorContains(t, r.err, "is left behind")
	require.ErrorContains(t, r.Verdict(), "writer ")
}

func TestAReaderIsNotWaitedForForEver(t *testing.T) {
	l := &load{Bench: &Bench{}, nudge: make(chan struct{}, 1)}
	began := time.Now()
	l.await(1, 20*time.Millisecond)
	assert.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
	l.read.Store(1)
	l.await(1, time.Hour)
}

func TestVerdicts(t *testing.T) {
	good := Run{Written: 10, Expected: 20, Read: 20, Coverage: 1}
	require.NoError(t, good.Err())
	for want, change := range map[string]func(*Run){
		"nothing was written":                   func(r *Run) { *r = Run{} },
		"coverage 0.950000: 19 rows read of 20": func(r *Run) { r.Read, r.Coverage = 19, 0.95 },
		"coverage 1.050000: 21 rows read of 20": func(r *Run) { r.Read, r.Coverage = 21, 1.05 },
		"1 rows missing or out of order":        func(r *Run) { r.Disordered = 1 },
		"writer 3: gone\nreader 1: gone":        func(r *Run) { r.Failures = []string{"writer 3: gone", "reader 1: gone"} },
	} {
		bad := good
		change(&bad)
		require.EqualError(t, bad.Err(), want)
	}
	require.EqualError(t, (&Result{}).Verdict(), "no run was finished")
	r := &Result{Runs: []Run{good, {Round: 2, Mode: InTx, Written: 1, Expected: 2, Read: 1, Coverage: 0.5, Disordered: 1}}}
	require.EqualError(t, r.Verdict(), "not every row was read by every reader: round 2, intx: coverage 0.500000: 1 rows read of 2, 1 rows missing or out of order")
}

func TestStreamsAreSharedOut(t *testing.T) {
	for _, c := range []Config{{Writers: 3, Streams: 5, Readers: 2}, {Writers: 5, Streams: 5, Readers: 5}, {Writers: 1, Streams: 3, Readers: 7}, {Writers: 4, Streams: 9, Readers: 9}} {
		read, written := make([]int, c.Streams), make([]int, c.Streams)
		for reader := range c.Readers {
			for _, stream := range c.follows(reader) {
				read[stream]++
			}
		}
		for writer := range c.Writers {
			own := map[int]bool{}
			for n := range 2 * c.Streams {
				stream := c.streamOf(writer, n)
				assert.Equal(t, writer, stream%c.Writers)
				own[stream] = true
			}
			for stream := range own {
				written[stream]++
			}
		}
		for stream := range c.Streams {
			assert.Positive(t, read[stream], "%+v: stream %d has a reader", c, stream)
			assert.Equal(t, 1, written[stream], "%+v: stream %d has one writer", c, stream)
		}
	}
}

func TestConfig(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	for want, change := range map[string]func(*Config){
		"writers: 0 is not between 1 and 10000":         func(c *Config) { c.Writers = 0 },
		"streams: 50 writers want a stream each, there": func(c *Config) { c.Streams = 49 },
		"readers: 0 is not between":                     func(c *Config) { c.Readers = 0 },
		"repeat: 0 is not between":                      func(c *Config) { c.Rounds = 0 },
		"duration: 0s is not between 10ms and 1h":       func(c *Config) { c.Duration = 0 },
		"poll: 0s is not between 1ms and 1h":            func(c *Config) { c.Poll = 0 },
		"fallback: 0s is not between 10ms and 1h":       func(c *Config) { c.Fallback = 0 },
		"flush: -1ns is not between 0s and 1m0s":        func(c *Config) { c.Flush = -1 },
		"settle: 20s is not longer than fallback (20s)": func(c *Config) { c.Settle = c.Fallback },
		"rate: -1 is not between 0 and":                 func(c *Config) { c.Rate = -1 },
		"mode: none is given, there are intx":           func(c *Config) { c.Modes = nil },
		`mode: "x" is none of intx, trigger`:            func(c *Config) { c.Modes = []string{"x"} },
		"mode: intx is named twice":                     func(c *Config) { c.Modes = []string{InTx, InTx} },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		require.ErrorContains(t, cfg.Validate(), want)
	}
}
