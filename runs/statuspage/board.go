package statuspage

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// frameInterval is the time between two frames: often enough for the eye, and few enough for a browser that draws them.
	frameInterval = 500 * time.Millisecond
	// retryPause is the wait after a watch or a read that failed.
	retryPause = time.Second
)

var errTooManyViewers = errors.New("too many browsers look at this page already")

// board gathers what the page shows, while it has viewers.
type board struct {
	repo   interfaces.ActionRepo
	notify func() interfaces.NotifyStatus

	mu      sync.Mutex
	viewers map[chan []byte]bool
	latest  []byte
	stop    func() // ends the gathering under way and waits for it; nil when there is none
}

func newBoard(repo interfaces.ActionRepo, notify func() interfaces.NotifyStatus) *board {
	return &board{repo: repo, notify: notify, viewers: map[chan []byte]bool{}}
}

// join adds a viewer. It is given frames, and of those that it was too slow for only the newest. The first viewer starts the gathering,
// the last one to leave ends it.
func (b *board) join() (frames <-chan []byte, leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.viewers) >= maxViewers {
		return nil, nil, errTooManyViewers
	}
	viewer := make(chan []byte, 1)
	b.viewers[viewer] = true
	if b.latest != nil {
		viewer <- b.latest
	}
	if b.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.gather(ctx)
		}()
		b.stop = func() {
			cancel()
			<-ended
		}
	}
	return viewer, func() { b.leave(viewer) }, nil
}

func (b *board) leave(viewer chan []byte) {
	b.mu.Lock()
	delete(b.viewers, viewer)
	stop := b.stop
	if len(b.viewers) > 0 {
		stop = nil
	} else {
		b.stop, b.latest = nil, nil
	}
	b.mu.Unlock()
	if stop != nil {
		stop() // not under the lock, which publish takes
	}
}

// publish gives a frame to everybody.
func (b *board) publish(ctx context.Context, frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil { // the viewers are another gathering's
		return
	}
	b.latest = frame
	for viewer := range b.viewers {
		select {
		case <-viewer: // an older one that it has not taken
		default:
		}
		viewer <- frame
	}
}

// gather keeps the picture up to date and publishes it, until ctx ends.
func (b *board) gather(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	p := newPicture()
	changes := make(chan change, 256)
	start := func(ctx context.Context, what string, once func(context.Context, chan<- change) error) {
		running.Go(func() { insist(ctx, what, changes, once) })
	}
	start(ctx, "runs", b.watchRuns)
	p.follow = func(run runKey) (unfollow func()) {
		ctx, cancel := context.WithCancel(ctx)
		start(ctx, "actions of "+run.String(), func(ctx context.Context, changes chan<- change) error { return b.watchActions(ctx, run, changes) })
		return cancel
	}

	tick := time.NewTicker(frameInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-changes:
			c(p)
		case <-tick.C:
			p.choose()
			frame, err := json.Marshal(p.frame(time.Now(), b.notify()))
			if err != nil {
				logger.Errorf(ctx, "status page: %v", err)
				return
			}
			b.publish(ctx, frame)
		}
	}
}

// change is something that has happened, applied to the picture by the goroutine that owns it.
type change func(*picture)

// insist does once again and again, with a pause after each failure, which the page shows, until ctx ends.
func insist(ctx context.Context, what string, changes chan<- change, once func(context.Context, chan<- change) error) {
	for ctx.Err() == nil {
		err := once(ctx, changes)
		if ctx.Err() != nil {
			return
		}
		logger.Debugf(ctx, "status page: %s: %v", what, err)
		send(ctx, changes, func(p *picture) { p.failed(what, err) })
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

func send(ctx context.Context, changes chan<- change, c change) {
	select {
	case changes <- c:
	case <-ctx.Done():
	}
}

var errWatchEnded = errors.New("the watch has ended")

// watch runs one of the repository's watches beside first, which reads what is there already, and then applies what the watch sends. It
// returns when the watch has ended, with its error.
func watch[T any](ctx context.Context, begin func(context.Context, chan<- T, chan<- error), first func(context.Context) error, apply func(T)) error {
	ctx, cancel := context.WithCancel(ctx)
	updates, errs := make(chan T, 100), make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() {
		defer cancel()
		begin(ctx, updates, errs)
	})
	defer running.Wait()
	defer cancel()

	if err := first(ctx); err != nil {
		return err
	}
	for {
		select {
		case update := <-updates:
			apply(update)
		case err := <-errs:
			return err
		case <-ctx.Done():
			return errWatchEnded
		}
	}
}

// watchRuns shows the runs that have not ended and the newest ones, and then every change.
func (b *board) watchRuns(ctx context.Context, changes chan<- change) error {
	first := func(ctx context.Context) error {
		rows, err := b.firstRuns(ctx)
		if err != nil {
			return err
		}
		send(ctx, changes, func(p *picture) { p.healed("runs"); p.startRuns(rows) })
		return nil
	}
	return watch(ctx, b.repo.WatchAllRunUpdates, first, func(row *models.Run) {
		send(ctx, changes, func(p *picture) { p.runChanged(row) })
	})
}

// watchActions shows the actions of a run, and then every change.
func (b *board) watchActions(ctx context.Context, run runKey, changes chan<- change) error {
	begin := func(ctx context.Context, updates chan<- *models.Action, errs chan<- error) {
		b.repo.WatchAllActionUpdates(ctx, run.identifier(), updates, errs)
	}
	first := func(ctx context.Context) error {
		return b.eachPage(ctx, run, func(rows []*models.Action) {
			send(ctx, changes, func(p *picture) { p.healed("actions of " + run.String()); p.actionsRead(run, rows) })
		})
	}
	return watch(ctx, begin, first, func(row *models.Action) {
		send(ctx, changes, func(p *picture) { p.actionChanged(run, row) })
	})
}
