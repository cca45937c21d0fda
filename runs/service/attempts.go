package service

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

// attemptsOf puts the attempts at an action together from its events, first attempt first.
func attemptsOf(events []*workflow.ActionEvent) []*workflow.ActionAttempt {
	events = slices.Clone(events)
	slices.SortStableFunc(events, compareEvents)
	var attempts []*workflow.ActionAttempt
	for first := 0; first < len(events); {
		next := first + 1
		for next < len(events) && events[next].GetAttempt() == events[first].GetAttempt() {
			next++
		}
		attempts = append(attempts, attemptOf(events[first:next]))
		first = next
	}
	return attempts
}

// compareEvents orders events as they happened: attempt by attempt, by the time within an attempt, and what ended the attempt last, whatever
// the clocks of those who reported say. The numbers of the phases decide only between events of the same time: PAUSED
// has a higher number than what it gives way to.
func compareEvents(a, b *workflow.ActionEvent) int {
	return cmp.Or(
		cmp.Compare(a.GetAttempt(), b.GetAttempt()),
		compareBool(isTerminal(a.GetPhase()), isTerminal(b.GetPhase())),
		happenedAt(a).Compare(happenedAt(b)),
		cmp.Compare(a.GetPhase(), b.GetPhase()),
		cmp.Compare(a.GetVersion(), b.GetVersion()),
	)
}

// happenedAt returns the best known time of an event: by the cluster's clock, else when it was reported, else when its phase began;
// the zero time when none is given.
func happenedAt(event *workflow.ActionEvent) time.Time {
	for _, at := range []*timestamppb.Timestamp{event.GetUpdatedTime(), event.GetReportedTime(), event.GetStartTime()} {
		if at := given(at); at != nil {
			return at.AsTime()
		}
	}
	return time.Time{}
}

// attemptOf makes one attempt from its events (at least one), in their order. Where an event says nothing of a property, what an earlier
// one said stands.
func attemptOf(events []*workflow.ActionEvent) *workflow.ActionAttempt {
	attempt := &workflow.ActionAttempt{Attempt: events[0].GetAttempt()}
	for _, event := range events {
		attempt.Phase = event.GetPhase()
		attempt.CacheStatus = event.GetCacheStatus()
		attempt.ClusterEvents = append(attempt.ClusterEvents, event.GetClusterEvents()...)
		if attempt.StartTime == nil {
			attempt.StartTime = given(event.GetStartTime())
		}
		if end := given(event.GetEndTime()); end != nil {
			attempt.EndTime = end
		}
		if event.GetErrorInfo() != nil {
			attempt.ErrorInfo = event.GetErrorInfo()
		}
		if event.GetCluster() != "" {
			attempt.Cluster = event.GetCluster()
		}
		if event.GetCacheMetadata() != nil {
			attempt.CacheMetadata = event.GetCacheMetadata()
		}
	}
	if attempt.StartTime == nil {
		attempt.StartTime = timeOrNil(happenedAt(events[0]))
	}
	if attempt.EndTime == nil && isTerminal(attempt.GetPhase()) {
		attempt.EndTime = timeOrNil(happenedAt(events[len(events)-1]))
	}
	attempt.PhaseTransitions = transitionsOf(events, attempt.GetEndTime())
	return attempt
}

// transitionsOf tells which phases an attempt went through; each ends where the next begins, and the last with the attempt.
func transitionsOf(events []*workflow.ActionEvent, end *timestamppb.Timestamp) []*workflow.PhaseTransition {
	var transitions []*workflow.PhaseTransition
	for _, event := range events {
		last := len(transitions) - 1
		if last >= 0 && transitions[last].GetPhase() == event.GetPhase() {
			continue
		}
		start := timeOrNil(happenedAt(event))
		if last >= 0 {
			transitions[last].EndTime = start
		}
		transitions = append(transitions, &workflow.PhaseTransition{Phase: event.GetPhase(), StartTime: start})
	}
	if end != nil {
		transitions[len(transitions)-1].EndTime = end
	}
	return transitions
}

// isTerminal tells whether an action or attempt in this phase has ended.
func isTerminal(phase common.ActionPhase) bool {
	switch phase {
	case common.ActionPhase_ACTION_PHASE_SUCCEEDED,
		common.ActionPhase_ACTION_PHASE_FAILED,
		common.ActionPhase_ACTION_PHASE_ABORTED,
		common.ActionPhase_ACTION_PHASE_TIMED_OUT,
		common.ActionPhase_ACTION_PHASE_RECOVERED:
		return true
	default:
		return false
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func timeOrNil(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
