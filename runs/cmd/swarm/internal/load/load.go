package load

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
)

const (
	probeTimeout = 5 * time.Second
	settlePoll   = 2 * time.Millisecond
)

// Load is one load, run once. Progress may be called meanwhile, from any goroutine.
type Load struct {
	cfg        Config
	clients    *clients
	recorder   *measure.Recorder
	dispatcher *dispatcher

	actionsWatch, runsWatch, detailsWatch *Watch

	watching     context.Context // over when the streams are to end
	stopWatching context.CancelFunc
	streams      sync.WaitGroup
	streamNumber atomic.Int64

	detailWatchers                atomic.Int64 // asked for, so may exceed the number there are
	finishedRuns, finishedActions atomic.Int64
	recorded, ended, events       atomic.Int64 // see Written

	mu     sync.Mutex
	byName map[string]*run
}

// New prepares a load; it opens no connection yet.
func New(cfg Config) (*Load, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Endpoint = strings.TrimRight(cfg.Endpoint, "/")
	l := &Load{
		cfg:          cfg,
		clients:      newClients(cfg),
		recorder:     measure.NewRecorder(),
		actionsWatch: newWatch("WatchActions"),
		runsWatch:    newWatch("WatchRuns"),
		detailsWatch: newWatch("WatchActionDetails"),
		byName:       map[string]*run{},
	}
	invocation := newInvocation(time.Now())
	l.dispatcher = newDispatcher(cfg.Runs, cfg.Parallel, func(number int) *run {
		r := newRun(cfg, invocation, number)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.byName[r.id.GetName()] = r
		return r
	})
	return l, nil
}

func (l *Load) runNamed(name string) *run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byName[name]
}

func (l *Load) nextStream() workflowconnect.RunServiceClient {
	return l.clients.stream(int(l.streamNumber.Add(1)))
}

// Run drives the load to its end, or until ctx is over: then it gives the result so far. It fails when the service cannot be
// reached at the start. All that it opened is closed when it returns.
func (l *Load) Run(ctx context.Context) (*Result, error) {
	defer l.clients.close()
	if err := l.probe(ctx); err != nil {
		return nil, err
	}
	l.watching, l.stopWatching = context.WithCancel(context.WithoutCancel(ctx))
	defer l.streams.Wait()
	defer l.stopWatching()
	begin := time.Now()
	l.watchRuns()
	boxed := l.work(ctx)
	elapsed := time.Since(begin)
	settled, all := l.settle(ctx)
	return l.result(begin, elapsed, settled, all, boxed, ctx.Err() != nil), nil
}

// probe asks for something cheap, so that a wrong address is told at once and in one line.
func (l *Load) probe(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, min(probeTimeout, l.cfg.Timeout))
	defer cancel()
	_, err := l.clients.call(0).runs.ListRuns(ctx, connect.NewRequest(&workflow.ListRunsRequest{
		Request: &common.ListRequest{Limit: 1},
		ScopeBy: &workflow.ListRunsRequest_ProjectId{ProjectId: &common.ProjectIdentifier{
			Organization: l.cfg.Org, Domain: l.cfg.Domain, Name: l.cfg.Project,
		}},
	}))
	if err != nil && parent.Err() != nil {
		return parent.Err()
	}
	if err != nil {
		return fmt.Errorf("no runs service answers at %s: %w", l.cfg.Endpoint, err)
	}
	return nil
}

// work runs the workers to their end, and says whether the time box ended the load.
func (l *Load) work(ctx context.Context) (boxed bool) {
	var timeUp atomic.Bool
	defer context.AfterFunc(ctx, l.dispatcher.stop)()
	if l.cfg.Duration > 0 {
		defer time.AfterFunc(l.cfg.Duration, func() {
			timeUp.Store(true)
			l.dispatcher.stop()
		}).Stop()
	}
	var workers sync.WaitGroup
	for i := range l.cfg.Concurrency {
		w := &worker{load: l, client: l.clients.call(i)}
		workers.Go(func() { w.work(ctx) })
	}
	workers.Wait()
	return timeUp.Load() && l.finishedRuns.Load() < int64(l.cfg.Runs)
}

// settle waits until every watcher has seen what it is to see, and says how long that took and whether it came so far.
func (l *Load) settle(ctx context.Context) (took time.Duration, all bool) {
	begin := time.Now()
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		took = time.Since(begin)
		if l.behind() == 0 {
			return took, true
		}
		if took >= l.cfg.Settle {
			return took, false
		}
		select {
		case <-ctx.Done():
			return took, false
		case <-tick.C:
		}
	}
}

func (l *Load) behind() int64 {
	return l.actionsWatch.behind() + l.runsWatch.behind() + l.detailsWatch.behind()
}

// Progress is where a load stands.
type Progress struct {
	Runs, Actions     int64 // finished
	RunsOf, ActionsOf int64
	Calls, Errors     int64
	Behind            int64 // watchers that are to see a terminal phase and have not
}

// Progress tells where the load stands.
func (l *Load) Progress() Progress {
	calls, failed := l.recorder.Totals()
	return Progress{
		Runs: l.finishedRuns.Load(), RunsOf: int64(l.cfg.Runs),
		Actions: l.finishedActions.Load(), ActionsOf: int64(l.cfg.Runs * l.cfg.Actions),
		Calls: calls, Errors: failed,
		Behind: l.behind(),
	}
}
