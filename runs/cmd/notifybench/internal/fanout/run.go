package fanout

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/trial"
)

// interruptedSettle is the longest time that somebody who interrupts is kept waiting for the listeners.
const interruptedSettle = 5 * time.Second

// Run is one run's figures.
type Run struct {
	Round int    `json:"round"`
	Mode  string `json:"mode"`
	// Sent counts confirmed payloads; SendSeconds is the time from the first send to the last confirmation.
	Sent          int64   `json:"sent"`
	SendSeconds   float64 `json:"sendSeconds"`
	SentPerSecond float64 `json:"sentPerSecond"`
	Statements    int64   `json:"statements"`
	// ReceiveSeconds is the time from the first send to the last receipt.
	ReceiveSeconds    float64 `json:"receiveSeconds"`
	ReceivedPerSecond float64 `json:"receivedPerSecond"`
	// Latency from the moment at which a notifier is about to send a payload to the moment at which a listener has it.
	Latency   measure.Summary `json:"latency"`
	Histogram []Decade        `json:"histogram"`
	Verdict   Verdict         `json:"verdict"`
}

// Bench is the load. Run is called once; Progress may be called meanwhile from any goroutine.
type Bench struct {
	cfg Config
	srv *server.Server

	at             atomic.Pointer[trial.Trial] // the run under way
	sent, received atomic.Int64                // in it, roughly
}

// New returns a load of a size that has been validated.
func New(cfg Config, srv *server.Server) *Bench {
	return &Bench{cfg: cfg, srv: srv}
}

// Progress is one line about where the load stands.
func (b *Bench) Progress(elapsed time.Duration) string {
	at := b.at.Load()
	if at == nil {
		return fmt.Sprintf("%6.1f s", elapsed.Seconds())
	}
	return fmt.Sprintf("%6.1f s  round %d of %d, %s: sent %s, received %s", elapsed.Seconds(), at.Round, b.cfg.Rounds, at.Mode,
		report.Count(b.sent.Load()), report.Count(b.received.Load()))
}

// Run makes all runs, those before the end of ctx at least in part. The error says why there could be no run at all, or no further one.
func (b *Bench) Run(ctx context.Context, head report.Head) (*Result, error) {
	result := &Result{Head: head, Config: b.cfg}
	for _, t := range trial.Plan(b.cfg.Modes, b.cfg.Rounds) {
		if ctx.Err() != nil {
			break
		}
		b.at.Store(&t)
		run, err := b.run(ctx, t)
		if err != nil && ctx.Err() == nil {
			return result.complete(), fmt.Errorf("round %d, %s: %w", t.Round, t.Mode, err)
		}
		if err == nil {
			result.Runs = append(result.Runs, *run)
		}
	}
	result.Interrupted = ctx.Err() != nil
	return result.complete(), nil
}

// load is one run under way.
type load struct {
	*Bench
	name     string // of this run alone: its channels' begins with it
	channels []string
	base     time.Time     // what times in payloads count from
	begin    time.Duration // of the sending, since base
	latency  *measure.Histogram
	sent     [][]int64 // [notifier][channel], each row its notifier's

	mu       sync.Mutex
	failures []string
}

func (b *Bench) run(ctx context.Context, t trial.Trial) (*Run, error) {
	l := &load{Bench: b, name: server.UniqueName(), base: time.Now(), latency: measure.NewHistogram(), sent: make([][]int64, b.cfg.Notifiers)}
	for c := range b.cfg.Channels {
		l.channels = append(l.channels, fmt.Sprintf("%s_%d", l.name, c))
	}
	for n := range l.sent {
		l.sent[n] = make([]int64, b.cfg.Channels)
	}
	b.sent.Store(0)
	b.received.Store(0)

	ears, err := l.openEars(ctx)
	if err != nil {
		return nil, err
	}
	defer ears.close()
	send, err := l.openSend(ctx, t.Mode)
	if err != nil {
		return nil, err
	}
	defer send.close()
	if err := ears.begin(ctx); err != nil {
		return nil, err
	}

	sending, cancel := context.WithTimeout(ctx, b.cfg.Duration)
	defer cancel()
	statements := send.all(sending)
	took := time.Since(l.base) - l.begin
	settle := b.cfg.Settle
	if ctx.Err() != nil {
		settle = min(settle, interruptedSettle)
	}
	if err := ears.end(context.WithoutCancel(ctx), settle); err != nil {
		l.fail("mark the end: %v", err)
	}
	return l.result(t, ears, took, statements), nil
}

// fail notes something that voids the run.
func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, fmt.Sprintf(format, args...))
}

func (l *load) result(t trial.Trial, ears *ears, took time.Duration, statements int64) *Run {
	run := &Run{Round: t.Round, Mode: t.Mode, SendSeconds: took.Seconds(), Statements: statements, Latency: l.latency.Summary()}
	for _, counts := range l.sent {
		for _, n := range counts {
			run.Sent += n
		}
	}
	var hearings []*hearing
	var all decades
	var last time.Duration
	for _, e := range ears.all {
		hearings = append(hearings, &e.hearing)
		all.merge(&e.decades)
		last = max(last, e.last)
	}
	run.Histogram = all.list()
	run.Verdict = judge(hearings, l.sent)
	run.Verdict.Failures = append(run.Verdict.Failures, l.failures...)
	run.SentPerSecond = float64(run.Sent) / took.Seconds()
	if span := (last - l.begin).Seconds(); span > 0 { // something was heard
		run.ReceiveSeconds = span
		run.ReceivedPerSecond = float64(run.Verdict.Received) / span
	}
	return run
}
