package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/runs/cmd/internal/machine"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// Bench is one comparison, run once. Progress may be called meanwhile, from any goroutine.
type Bench struct {
	cfg     Config
	command string

	mu     sync.Mutex
	doing  string
	onLoad *load.Load
}

// New prepares a comparison. command is how to run it again.
func New(cfg Config, command string) (*Bench, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Bench{cfg: cfg, command: command}, nil
}

// Run has all trials, or as many as there are until ctx is over; the one that this cuts off is left out. It fails when a trial cannot
// be had at all, and leaves no process and no file behind.
func (b *Bench) Run(ctx context.Context) (set *trial.Set, err error) {
	dir, err := os.MkdirTemp("", "swarm-bench-")
	if err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	begin := time.Now()
	set = &trial.Set{
		Title: "notify modes compared", Command: b.command, Started: begin, Machine: machine.Describe(), Sides: b.sides(), Pairs: b.pairs(),
	}
	program := b.cfg.Service
	if program == "" {
		b.now("building the service", nil)
		if program, err = build(ctx, dir); err != nil {
			return nil, err
		}
	}
	var postgres string
	for i, next := range b.plan() {
		if ctx.Err() != nil {
			break
		}
		t, version, err := b.trial(ctx, filepath.Join(dir, strconv.Itoa(i)), program, next)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("round %d, mode %s: %w", next.round, next.side.Name, err)
		}
		postgres = version
		set.Trials = append(set.Trials, t)
	}
	set.Interrupted = ctx.Err() != nil
	set.Seconds = time.Since(begin).Seconds()
	set.Facts = b.facts(context.WithoutCancel(ctx), postgres)
	return set, nil
}

func (b *Bench) sides() (sides []trial.Side) {
	for _, mode := range modes {
		if slices.Contains(b.cfg.Modes, mode) {
			sides = append(sides, trial.Side{Name: mode, Unwatched: mode == string(impl.NotifyModeOff)})
		}
	}
	return sides
}

// pairs sets batched in relation to the others.
func (b *Bench) pairs() (pairs []trial.Pair) {
	subject := string(impl.NotifyModeBatched)
	for _, side := range b.sides() {
		if side.Name != subject && slices.Contains(b.cfg.Modes, subject) {
			pairs = append(pairs, trial.Pair{Subject: subject, Reference: side.Name})
		}
	}
	return pairs
}

type planned struct {
	side  trial.Side
	round int
}

func (b *Bench) plan() (all []planned) {
	for round := range b.cfg.Repeat {
		sides := b.sides()
		rand.Shuffle(len(sides), func(i, j int) { sides[i], sides[j] = sides[j], sides[i] })
		for _, side := range sides {
			all = append(all, planned{side, round + 1})
		}
	}
	return all
}

// trial sets everything up, drives the load, and takes everything down again.
func (b *Bench) trial(ctx context.Context, dir, program string, next planned) (t *trial.Trial, postgres string, err error) {
	name := fmt.Sprintf("round %d of %d, %s", next.round, b.cfg.Repeat, next.side.Name)
	b.now(name+": starting", nil)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, "", fmt.Errorf("temporary folder: %w", err)
	}
	server, err := startDatabase(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	if err := query(ctx, server.DSN("postgres"), "SHOW server_version", &postgres); err != nil {
		return nil, "", err
	}
	if b.cfg.CommitLatency > 0 {
		slow, err := startSlowCommits(ctx, server, b.cfg.CommitLatency, dir)
		if err != nil {
			return nil, "", err
		}
		defer slow.stop()
	}
	proxy, err := pgproxy.Start(net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port())), pgproxy.Options{RTT: b.cfg.RTT, Jitter: b.cfg.Jitter})
	if err != nil {
		return nil, "", err
	}
	defer proxy.Close()
	db := server.Postgres(databaseName)
	if db.Port, err = portOf(proxy.Addr()); err != nil {
		return nil, "", err
	}
	running, err := startService(ctx, program, next.side.Name, filepath.Join(dir, "service.log"), db)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, running.stop()) }()

	t = &trial.Trial{Side: next.side.Name, Round: next.round, LoadAverage: machine.Describe().Load}
	if err := b.drive(ctx, t, name, next.side, running, proxy, server); err != nil {
		return nil, "", err
	}
	if t.Rows, err = countRows(ctx, server, t.Load.Written); err != nil {
		return nil, "", err
	}
	t.Void = verdict(t, next.side)
	return t, postgres, nil
}

// drive puts the load on the service and measures.
func (b *Bench) drive(
	ctx context.Context, t *trial.Trial, name string, side trial.Side, running *service, proxy *pgproxy.Proxy, server *embedded.Server,
) error {
	cfg := b.cfg.Load
	cfg.Endpoint = running.url
	if side.Unwatched {
		cfg.Settle = 0 // there is nothing to wait for
	}
	l, err := load.New(cfg)
	if err != nil {
		return err
	}
	b.now(name, l)
	before := cpuNow(running.cmd.Process.Pid, server)
	sampler := startSampler(ctx, proxy, l, running.metrics)
	t.Load, err = l.Run(ctx)
	t.Samples, t.Wire = sampler.stop()
	t.CPU = cpuSince(before, cpuNow(running.cmd.Process.Pid, server))
	return err
}

func portOf(address string) (int, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

func (b *Bench) now(doing string, l *load.Load) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doing, b.onLoad = doing, l
}

// Progress says what goes on, in one line.
func (b *Bench) Progress() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.onLoad == nil {
		return b.doing
	}
	p := b.onLoad.Progress()
	return fmt.Sprintf("%s: actions %d  calls %d  errors %d  watchers behind %d", b.doing, p.Actions, p.Calls, p.Errors, p.Behind)
}
