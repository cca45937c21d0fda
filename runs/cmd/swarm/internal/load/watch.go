package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

var errStreamEnded = errors.New("the service ended the stream")

// watch opens a stream and gives its messages to see until ctx is over. An end before that is a failure, unless the stream may end
// by itself. The returned channel is closed at the first message, or at the end when there was none.
func watch[Request, Response any](
	ctx context.Context, l *Load, w *Watch, mayEnd bool, request *Request,
	open func(context.Context, *connect.Request[Request]) (*connect.ServerStreamForClient[Response], error),
	see func(*Response),
) (first <-chan struct{}) {
	w.streams.Add(1)
	ready := make(chan struct{})
	l.streams.Go(func() {
		isReady := sync.OnceFunc(func() { close(ready) })
		defer isReady()
		stream, err := open(ctx, connect.NewRequest(request))
		if err == nil {
			for stream.Receive() {
				see(stream.Msg())
				isReady()
			}
			err = stream.Err()
			_ = stream.Close()
			if err == nil && !mayEnd {
				err = connect.NewError(connect.CodeAborted, errStreamEnded)
			}
		}
		if err != nil && ctx.Err() == nil {
			l.recorder.Failed(w.name, connect.CodeOf(err).String(), err.Error())
		}
	})
	return ready
}

// watchRuns watches the project, for as long as the load watches.
func (l *Load) watchRuns() {
	request := &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_ProjectId{ProjectId: &common.ProjectIdentifier{
		Organization: l.cfg.Org, Domain: l.cfg.Domain, Name: l.cfg.Project,
	}}}
	watch(l.watching, l, l.runsWatch, false, request, l.clients.stream(0).WatchRuns,
		func(message *workflow.WatchRunsResponse) {
			now := time.Now()
			for _, shown := range message.GetRuns() {
				if !terminal(shown.GetAction().GetStatus().GetPhase()) {
					continue
				}
				if r := l.runNamed(shown.GetAction().GetId().GetRun().GetName()); r != nil {
					r.root.seenAt(now, l.runsWatch)
				}
			}
		})
}

// watchActions watches a run until all its actions have ended on the stream, and returns when the stream has shown something: what
// follows is then seen by notification, not by the snapshot that a stream begins with.
func (l *Load) watchActions(ctx context.Context, r *run) {
	watching, stop := context.WithCancel(l.watching)
	r.whenAllSeen(stop)
	first := watch(watching, l, l.actionsWatch, false, &workflow.WatchActionsRequest{RunId: r.id}, l.nextStream().WatchActions,
		func(message *workflow.WatchActionsResponse) {
			now := time.Now()
			for _, shown := range message.GetEnrichedActions() {
				if !terminal(shown.GetAction().GetStatus().GetPhase()) {
					continue
				}
				if number := r.number(shown.GetAction().GetId().GetName()); number >= 0 {
					r.actionSeen(number, now, l.actionsWatch)
				}
			}
		})
	timer := time.NewTimer(l.cfg.Timeout)
	defer timer.Stop()
	select {
	case <-first:
	case <-ctx.Done():
	case <-timer.C:
		l.recorder.Failed(l.actionsWatch.name, connect.CodeDeadlineExceeded.String(),
			"no first message within "+l.cfg.Timeout.String())
	}
}

// watchDetails watches one action, when there is a watcher left for it; else it returns nil.
func (l *Load) watchDetails(t task) *watcher {
	if l.detailWatchers.Add(1) > int64(l.cfg.ActionWatchers) {
		return nil
	}
	seen := &watcher{}
	watch(l.watching, l, l.detailsWatch, true, &workflow.WatchActionDetailsRequest{ActionId: t.run.action(t.number)},
		l.nextStream().WatchActionDetails,
		func(message *workflow.WatchActionDetailsResponse) {
			if terminal(message.GetDetails().GetStatus().GetPhase()) {
				seen.seenAt(time.Now(), l.detailsWatch)
			}
		})
	return seen
}
