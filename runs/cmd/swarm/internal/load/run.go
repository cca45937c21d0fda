package load

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

const rootName = "a0"

// run is the state of one run: what is handed out, what is done, what the streams have shown.
type run struct {
	id *common.RunIdentifier

	next int // child to hand out next, from 1; guarded by the dispatcher

	mu     sync.Mutex
	done   int // children that have ended, in whatever way
	failed int // of these, with a failed call

	// watchers by action number, the root's at 0.
	actions []watcher
	root    watcher // of the run on WatchRuns
	toSee   int     // actions not seen yet
	allSeen func()  // called when there is none left
}

// newInvocation is a prefix of run names that no other invocation has.
func newInvocation(now time.Time) string {
	return "s" + strconv.FormatInt(now.Unix(), 36) + strings.ToLower(rand.Text()[:5])
}

func newRun(cfg Config, invocation string, number int) *run {
	return &run{
		id: &common.RunIdentifier{
			Org: cfg.Org, Project: cfg.Project, Domain: cfg.Domain, Name: fmt.Sprintf("%s-%d", invocation, number),
		},
		next:    1,
		actions: make([]watcher, cfg.Actions+1),
		toSee:   cfg.Actions + 1,
	}
}

func actionName(number int) string { return "a" + strconv.Itoa(number) }

func (r *run) action(number int) *common.ActionIdentifier {
	return &common.ActionIdentifier{Run: r.id, Name: actionName(number)}
}

// number is the inverse of actionName; -1 when the run has no such action.
func (r *run) number(name string) int {
	digits, ok := strings.CutPrefix(name, "a")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n >= len(r.actions) {
		return -1
	}
	return n
}

// childEnded notes the end of a child. last: it was the last one; clean: none has failed.
func (r *run) childEnded(failed bool) (last, clean bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if failed {
		r.failed++
	}
	return r.done == len(r.actions)-1, r.failed == 0
}

// whenAllSeen sets what is called when the run's stream has shown all actions in a terminal phase; before the stream is opened.
func (r *run) whenAllSeen(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allSeen = f
}

// actionSeen notes that the run's stream showed an action in a terminal phase.
func (r *run) actionSeen(number int, now time.Time, w *Watch) {
	if !r.actions[number].seenAt(now, w) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.toSee--; r.toSee == 0 {
		r.allSeen()
	}
}

func terminal(phase common.ActionPhase) bool {
	switch phase {
	case common.ActionPhase_ACTION_PHASE_SUCCEEDED, common.ActionPhase_ACTION_PHASE_FAILED,
		common.ActionPhase_ACTION_PHASE_ABORTED, common.ActionPhase_ACTION_PHASE_TIMED_OUT,
		common.ActionPhase_ACTION_PHASE_RECOVERED:
		return true
	}
	return false
}
