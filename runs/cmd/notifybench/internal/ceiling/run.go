package ceiling

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/trial"
)

// hearLimit bounds the wait, after the last commit, for the notifications to be heard.
const hearLimit = 30 * time.Second

// Run is one run's figures.
type Run struct {
	Round int    `json:"round"`
	Mode  string `json:"mode"`
	// Milliseconds from before the first statement to after the last confirmation, and to the last receipt.
	SentMs  float64 `json:"sentMs"`
	HeardMs float64 `json:"heardMs"`
	Heard   int     `json:"heard"` // different payloads of this run
	Extra   int     `json:"extra"` // heard again, or not of this run
	Failure string  `json:"failure,omitempty"`
}

// Err says why the figures are void, nil when they are not.
func (r Run) Err(n int) error {
	switch {
	case r.Failure != "":
		return errors.New(r.Failure)
	case r.Heard != n || r.Extra != 0:
		return fmt.Errorf("%d of %d heard, %d too many", r.Heard, n, r.Extra)
	}
	return nil
}

// Bench is the load. Run is called once; Progress may be called meanwhile from any goroutine.
type Bench struct {
	cfg Config
	srv *server.Server
	at  atomic.Pointer[trial.Trial]
}

// New returns a load of a size that has been validated.
func New(cfg Config, srv *server.Server) *Bench { return &Bench{cfg: cfg, srv: srv} }

// Progress is one line about where the load stands.
func (b *Bench) Progress(elapsed time.Duration) string {
	at := b.at.Load()
	if at == nil {
		return fmt.Sprintf("%6.1f s", elapsed.Seconds())
	}
	return fmt.Sprintf("%6.1f s  round %d of %d, %s", elapsed.Seconds(), at.Round, b.cfg.Rounds, descriptions[at.Mode])
}

// Run makes all runs that are over before ctx ends. The error says why there could be no run at all, or no further one.
func (b *Bench) Run(ctx context.Context, head report.Head) (_ *Result, err error) {
	result := &Result{Head: head, Config: b.cfg}
	defer func() {
		result.Interrupted = ctx.Err() != nil
		result.complete()
	}()
	ear, err := b.openEar(ctx)
	if err != nil {
		return result, err
	}
	defer ear.close()
	mouth, err := b.openMouth(ctx, ear.channel)
	if err != nil {
		return result, err
	}
	defer mouth.close()
	for _, t := range trial.Plan(b.cfg.Modes, b.cfg.Rounds) {
		if ctx.Err() != nil {
			break
		}
		b.at.Store(&t)
		run := Run{Round: t.Round, Mode: t.Mode}
		prefix := fmt.Sprintf("%d %s ", t.Round, t.Mode)
		began := time.Now()
		err := mouth.send(ctx, t.Mode, prefix)
		run.SentMs = ms(time.Since(began))
		if err == nil {
			err = ear.hear(ctx, prefix, &run)
			run.HeardMs = ms(time.Since(began))
		}
		if ctx.Err() != nil {
			break // sent or heard in part
		}
		if err != nil {
			run.Failure = err.Error()
		}
		result.Runs = append(result.Runs, run)
		if run.Failure != "" {
			return result, fmt.Errorf("round %d, %s: %s", t.Round, t.Mode, run.Failure)
		}
	}
	return result, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ear is the connection that listens.
type ear struct {
	n       int
	channel string
	conn    *pgx.Conn
	heard   []string // not yet looked at
}

func (b *Bench) openEar(ctx context.Context) (_ *ear, err error) {
	e := &ear{n: b.cfg.N, channel: server.UniqueName()}
	if e.conn, err = b.srv.Connect(ctx, func(n *pgconn.Notification) { e.heard = append(e.heard, n.Payload) }); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	if _, err := e.conn.Exec(ctx, "LISTEN "+e.channel); err != nil {
		e.close()
		return nil, fmt.Errorf("LISTEN: %w", err)
	}
	return e, nil
}

// hear reads what the run has sent, which has been committed, until all of it has come or the limit is over.
func (e *ear) hear(ctx context.Context, prefix string, run *Run) error {
	ctx, cancel := context.WithTimeoutCause(ctx, hearLimit, fmt.Errorf("not all heard %s after the last commit", hearLimit))
	defer cancel()
	seen := make([]bool, e.n)
	return server.Hear(ctx, e.conn, func() bool {
		for _, payload := range e.heard {
			number, ours := strings.CutPrefix(payload, prefix)
			i, err := strconv.Atoi(number)
			if !ours || err != nil || i < 0 || i >= e.n || seen[i] {
				run.Extra++
				continue
			}
			seen[i] = true
			run.Heard++
		}
		e.heard = e.heard[:0]
		return run.Heard == e.n
	})
}

func (e *ear) close() { server.Disconnect(e.conn) }
