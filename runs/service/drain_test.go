package service

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// bottomless is a repository whose run has one more page, whatever the page.
type bottomless struct{ watching }

func (*bottomless) ListActions(_ context.Context, in interfaces.ListResourceInput) ([]*models.Action, error) {
	rows := make([]*models.Action, in.Limit+1)
	for i := range rows {
		rows[i] = models.NewActionModel(&common.ActionIdentifier{Run: runID("run"), Name: "a1"})
	}
	return rows, nil
}

func (b *bottomless) WatchAllActionUpdates(ctx context.Context, _ *common.RunIdentifier, _ chan<- *models.Action, _ chan<- error) {
	defer b.count()()
	<-ctx.Done()
}

func TestDrainEndsAFirstLookThatIsLong(t *testing.T) {
	server := newServer(t, &bottomless{})
	watch := open(t, server.runs().WatchActions, &workflow.WatchActionsRequest{RunId: runID("run")})
	watch.next()
	server.Drain()
	requireCode(t, connect.CodeUnavailable, watch.end(), "shutting down")
}

// hanging is a repository that answers a read when the read is given up, and notes each in reads.
type hanging struct {
	interfaces.ActionRepo
	reads chan struct{}
}

func (h hanging) read(ctx context.Context) error {
	h.reads <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (h hanging) ListActions(ctx context.Context, _ interfaces.ListResourceInput) ([]*models.Action, error) {
	return nil, h.read(ctx)
}

func (h hanging) GetRun(ctx context.Context, _ *common.RunIdentifier) (*models.Run, error) {
	return nil, h.read(ctx)
}

func (hanging) WatchAllRunUpdates(ctx context.Context, _ chan<- *models.Run, _ chan<- error) {
	<-ctx.Done()
}

func (hanging) WatchRunUpdates(ctx context.Context, _ *common.RunIdentifier, _ chan<- *models.Run, _ chan<- error) {
	<-ctx.Done()
}

func (hanging) WatchAllActionUpdates(ctx context.Context, _ *common.RunIdentifier, _ chan<- *models.Action, _ chan<- error) {
	<-ctx.Done()
}

func (hanging) WatchActionUpdates(ctx context.Context, _ *common.ActionIdentifier, _ chan<- *models.Action, _ chan<- error) {
	<-ctx.Done()
}

// endOf watches until the stream ends, in the background, since a stream opens with its first message.
func endOf[Request, Response any](
	t testing.TB, method func(context.Context, *connect.Request[Request]) (*connect.ServerStreamForClient[Response], error), request *Request,
) <-chan error {
	ends := make(chan error, 1)
	go func() {
		stream, err := method(t.Context(), connect.NewRequest(request))
		if err == nil {
			for stream.Receive() {
			}
			err = stream.Err()
			_ = stream.Close()
		}
		ends <- err
	}()
	return ends
}

func TestDrainDoesNotWaitForWhatAWatchReads(t *testing.T) {
	reads := make(chan struct{}, 3)
	server := newServer(t, hanging{reads: reads}, func(c *Config) { c.RequestTimeout = time.Hour })
	ends := []<-chan error{
		endOf(t, server.runs().WatchActions, &workflow.WatchActionsRequest{RunId: runID("run")}),
		endOf(t, server.runs().WatchRuns, &workflow.WatchRunsRequest{Target: &workflow.WatchRunsRequest_Org{Org: "org"}}),
		endOf(t, server.runs().WatchRunDetails, &workflow.WatchRunDetailsRequest{RunId: runID("run")}),
	}
	for range ends {
		select {
		case <-reads:
		case <-time.After(eventually):
			require.FailNow(t, "nothing is read")
		}
	}
	server.Drain()
	for _, end := range ends {
		select {
		case err := <-end:
			requireCode(t, connect.CodeUnavailable, err, "shutting down")
		case <-time.After(eventually):
			require.FailNow(t, "the stream does not end")
		}
	}
}
