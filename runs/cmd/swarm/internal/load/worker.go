package load

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	taskpb "github.com/flyteorg/flyte/v2/gen/go/flyteidl2/task"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

// phases of a child after the one it is recorded in.
var phases = []common.ActionPhase{
	common.ActionPhase_ACTION_PHASE_INITIALIZING,
	common.ActionPhase_ACTION_PHASE_RUNNING,
	common.ActionPhase_ACTION_PHASE_SUCCEEDED,
}

// worker takes one task after the other. It belongs to one goroutine.
type worker struct {
	load    *Load
	client  callClient
	events  []*workflow.ActionEvent
	batches int
}

func (w *worker) work(ctx context.Context) {
	for {
		t, ok := w.load.dispatcher.take()
		if !ok {
			break
		}
		if t.number == 0 {
			w.begin(ctx, t.run)
			continue
		}
		err := w.drive(ctx, t)
		if err == nil {
			w.load.finishedActions.Add(1)
		}
		if last, clean := t.run.childEnded(err != nil); last {
			w.end(ctx, t.run, clean)
		}
	}
	_ = w.flush(ctx)
}

// begin records the root and opens the run's stream. A run without a root is over.
func (w *worker) begin(ctx context.Context, r *run) {
	if err := w.record(ctx, r, 0); err != nil {
		w.load.dispatcher.ended()
		return
	}
	w.load.watchActions(ctx, r)
	w.load.dispatcher.ready(r)
}

// end makes the root terminal: the run is finished.
func (w *worker) end(ctx context.Context, r *run, clean bool) {
	defer w.load.dispatcher.ended()
	start := time.Now()
	if err := w.update(ctx, r, 0, common.ActionPhase_ACTION_PHASE_RUNNING, start); err != nil {
		return
	}
	phase := common.ActionPhase_ACTION_PHASE_SUCCEEDED
	if !clean {
		phase = common.ActionPhase_ACTION_PHASE_FAILED
	}
	if err := w.update(ctx, r, 0, phase, start); err != nil {
		return
	}
	now := time.Now()
	r.actions[0].answeredAt(now, w.load.actionsWatch)
	r.root.answeredAt(now, w.load.runsWatch)
	w.load.finishedRuns.Add(1)
}

// drive takes a child through its phases.
func (w *worker) drive(ctx context.Context, t task) error {
	if err := w.record(ctx, t.run, t.number); err != nil {
		return err
	}
	details := w.load.watchDetails(t)
	start := time.Now()
	if err := w.event(ctx, t, common.ActionPhase_ACTION_PHASE_QUEUED, start); err != nil {
		return err
	}
	for _, phase := range phases {
		if err := w.update(ctx, t.run, t.number, phase, start); err != nil {
			return err
		}
		if terminal(phase) {
			now := time.Now()
			t.run.actions[t.number].answeredAt(now, w.load.actionsWatch)
			if details != nil {
				details.answeredAt(now, w.load.detailsWatch)
			}
		}
		if err := w.event(ctx, t, phase, start); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) record(ctx context.Context, r *run, number int) error {
	request := &workflow.RecordActionRequest{
		ActionId: r.action(number),
		InputUri: "s3://swarm/" + r.id.GetName(),
		Spec: &workflow.RecordActionRequest_Task{Task: &workflow.TaskAction{Id: &taskpb.TaskIdentifier{
			Org: r.id.GetOrg(), Project: r.id.GetProject(), Domain: r.id.GetDomain(), Name: "swarm.work", Version: "v1",
		}}},
	}
	if number > 0 {
		request.Parent = rootName
	}
	err := call(ctx, w.load, "RecordAction", request, w.client.internal.RecordAction,
		(*workflow.RecordActionResponse).GetStatus)
	if err == nil {
		w.load.recorded.Add(1)
	}
	return err
}

func (w *worker) update(ctx context.Context, r *run, number int, phase common.ActionPhase, start time.Time) error {
	status := &workflow.ActionStatus{Phase: phase, StartTime: timestamppb.New(start), Attempts: 1}
	if terminal(phase) {
		status.EndTime = timestamppb.Now()
	}
	err := call(ctx, w.load, "UpdateActionStatus",
		&workflow.UpdateActionStatusRequest{ActionId: r.action(number), Status: status},
		w.client.internal.UpdateActionStatus, (*workflow.UpdateActionStatusResponse).GetStatus)
	if err == nil && terminal(phase) {
		w.load.ended.Add(1)
	}
	return err
}

// event notes an event for the next batch and sends that when it is full.
func (w *worker) event(ctx context.Context, t task, phase common.ActionPhase, start time.Time) error {
	if w.load.cfg.Events == EventsNone {
		return nil
	}
	now := timestamppb.Now()
	event := &workflow.ActionEvent{
		Id: t.run.action(t.number), Attempt: 1, Phase: phase, StartTime: timestamppb.New(start),
		UpdatedTime: now, ReportedTime: now, Cluster: "swarm",
	}
	if terminal(phase) {
		event.EndTime = now
	}
	w.events = append(w.events, event)
	if len(w.events) < w.load.cfg.EventBatch {
		return nil
	}
	return w.flush(ctx)
}

func (w *worker) flush(ctx context.Context) error {
	if len(w.events) == 0 {
		return nil
	}
	batch := w.events
	w.events = nil
	w.batches++
	via := w.load.cfg.Events
	if via == EventsBoth {
		via = []string{EventsInternal, EventsProxy}[w.batches%2]
	}
	var err error
	if via == EventsProxy {
		err = call(ctx, w.load, "Record", &workflow.RecordRequest{Events: batch}, w.client.events.Record, nil)
	} else {
		err = call(ctx, w.load, "RecordActionEvents", &workflow.RecordActionEventsRequest{Events: batch},
			w.client.internal.RecordActionEvents, (*workflow.RecordActionEventsResponse).GetStatus)
	}
	if err == nil {
		w.load.events.Add(int64(len(batch)))
	}
	return err
}
