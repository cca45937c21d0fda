package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/trial"
)

// interruptedSettle is the longest time that somebody who interrupts is kept waiting for the readers.
const interruptedSettle = 5 * time.Second

// Run is one run's figures.
type Run struct {
	Round int    `json:"round"`
	Mode  string `json:"mode"`
	// Written counts committed rows; WriteSeconds is the time from the first INSERT to the last commit.
	Written         int64   `json:"written"`
	WriteSeconds    float64 `json:"writeSeconds"`
	WritesPerSecond float64 `json:"writesPerSecond"`
	// WriteLatency is what a writer waits for its row to be committed.
	WriteLatency measure.Summary `json:"writeLatency"`
	// Latency from the INSERT, by the server's clock, to the moment at which a reader has the row.
	Latency measure.Summary `json:"latency"`
	// Expected is the number of rows times the readers of each; Read is how many were read; Coverage is Read / Expected.
	Expected int64   `json:"expected"`
	Read     int64   `json:"read"`
	Coverage float64 `json:"coverage"`
	// Disordered counts rows that did not follow the one read before: one is missing, or came twice.
	Disordered int64 `json:"disordered"`
	// SettleSeconds is the time from the last commit until all was read.
	SettleSeconds float64 `json:"settleSeconds"`

	Notifications int64 `json:"notifications"` // heard
	Reads         int64 `json:"reads"`         // SELECTs that a notification led to
	Polls         int64 `json:"polls"`         // SELECTs by the clock
	PolledRows    int64 `json:"polledRows"`    // rows that only these found

	PumpStatements int64 `json:"pumpStatements,omitempty"`
	Folded         int64 `json:"folded,omitempty"` // announcements that joined one already waiting in the pump

	Failures []string `json:"failures,omitempty"`
}

// Err says why the figures are void, nil when they are not.
func (r Run) Err() error {
	var wrong []error
	switch {
	case r.Written == 0:
		wrong = append(wrong, errors.New("nothing was written"))
	case r.Read != r.Expected:
		wrong = append(wrong, fmt.Errorf("coverage %.6f: %s rows read of %s", r.Coverage, report.Count(r.Read), report.Count(r.Expected)))
	}
	if r.Disordered > 0 {
		wrong = append(wrong, fmt.Errorf("%s rows missing or out of order", report.Count(r.Disordered)))
	}
	for _, failure := range r.Failures {
		wrong = append(wrong, errors.New(failure))
	}
	return errors.Join(wrong...)
}

// Bench is the load. Run is called once; Progress may be called meanwhile from any goroutine.
type Bench struct {
	cfg Config
	srv *server.Server

	at            atomic.Pointer[trial.Trial] // the run under way
	written, read atomic.Int64                // in it
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
	return fmt.Sprintf("%6.1f s  round %d of %d, %s: rows written %s, read %s", elapsed.Seconds(), at.Round, b.cfg.Rounds, at.Mode,
		report.Count(b.written.Load()), report.Count(b.read.Load()))
}

// Run makes all runs, those before the end of ctx at least in part, in a schema of its own that it drops in the end. The error says
// why there could be no run at all, or no further one, or what was left behind.
func (b *Bench) Run(ctx context.Context, head report.Head) (result *Result, err error) {
	result = &Result{Head: head, Config: b.cfg}
	defer func() {
		result.Interrupted = ctx.Err() != nil
		result.complete()
	}()
	schema, drop, err := b.srv.CreateSchema(ctx)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	for _, t := range trial.Plan(b.cfg.Modes, b.cfg.Rounds) {
		if ctx.Err() != nil {
			return result, nil
		}
		b.at.Store(&t)
		run, err := b.run(ctx, t, schema)
		if run != nil {
			result.Runs = append(result.Runs, *run)
		}
		if err != nil && ctx.Err() == nil {
			return result, fmt.Errorf("round %d, %s: %w", t.Round, t.Mode, err)
		}
	}
	return result, nil
}

// load is one run under way.
type load struct {
	*Bench
	mode    string
	table   table
	channel string
	clock   server.Clock

	writeLatency, latency *measure.Histogram
	rows                  []int64 // by stream, each its writer's

	nudge chan struct{} // a token when something was read

	heard, reads, polls, polledRows, disordered atomic.Int64

	mu       sync.Mutex
	failures []string
}

// fail notes something that voids the run.
func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, fmt.Sprintf(format, args...))
}

// run makes one run. It may return both the run and what went wrong after it.
func (b *Bench) run(ctx context.Context, t trial.Trial, schema string) (_ *Run, err error) {
	l := &load{
		Bench: b, mode: t.Mode, channel: server.UniqueName(), rows: make([]int64, b.cfg.Streams), nudge: make(chan struct{}, 1),
		writeLatency: measure.NewHistogram(), latency: measure.NewHistogram(),
	}
	b.written.Store(0)
	b.read.Store(0)
	if err := l.setUp(ctx, schema); err != nil {
		return nil, err
	}
	// One table after the other: an earlier one's rows must not be what a later run is slowed down by.
	defer func() { err = errors.Join(err, l.table.drop(context.WithoutCancel(ctx))) }()

	announce, err := l.openAnnouncer()
	if err != nil {
		return nil, err
	}
	defer announce.close()
	writers, err := l.openWriters(ctx)
	if err != nil {
		return nil, err
	}
	defer writers.close()
	readers, err := l.openReaders(ctx)
	if err != nil {
		return nil, err
	}
	defer readers.close()

	began := time.Now()
	writing, cancel := context.WithTimeout(ctx, b.cfg.Duration)
	defer cancel()
	writers.write(writing, announce)
	wrote := time.Since(began)
	settle := b.cfg.Settle
	if ctx.Err() != nil {
		settle = min(settle, interruptedSettle)
	}
	announce.flush(min(settle, server.Timeout))

	run := &Run{Round: t.Round, Mode: t.Mode, WriteSeconds: wrote.Seconds(), WriteLatency: l.writeLatency.Summary()}
	for reader := range b.cfg.Readers {
		for _, stream := range b.cfg.follows(reader) {
			run.Expected += l.rows[stream]
		}
	}
	for _, n := range l.rows {
		run.Written += n
	}
	l.await(run.Expected, settle)
	run.SettleSeconds = (time.Since(began) - wrote).Seconds()
	readers.close()
	l.complete(run, announce)
	return run, nil
}

// await returns when as many rows have been read, or after the limit.
func (l *load) await(rows int64, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for l.read.Load() < rows {
		select {
		case <-l.nudge:
		case <-timer.C:
			return
		}
	}
}

func (l *load) complete(run *Run, announce *announcer) {
	run.WritesPerSecond = float64(run.Written) / run.WriteSeconds
	run.Latency = l.latency.Summary()
	run.Read = l.read.Load()
	if run.Expected > 0 {
		run.Coverage = float64(run.Read) / float64(run.Expected)
	}
	run.Disordered = l.disordered.Load()
	run.Notifications, run.Reads = l.heard.Load(), l.reads.Load()
	run.Polls, run.PolledRows = l.polls.Load(), l.polledRows.Load()
	run.PumpStatements, run.Folded = announce.counts()
	run.Failures = l.failures
}
