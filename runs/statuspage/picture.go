package statuspage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// maxRuns bounds the runs that are kept count of, maxFollowed those whose actions are, and maxActions these, for each run.
	maxRuns     = 2000
	maxFollowed = 8
	maxActions  = 100_000
)

// phaseCount is how many phases there are.
var phaseCount = len(common.ActionPhase_name)

// ended tells whether a phase is one that nothing comes after, but for a retry.
func ended(phase int32) bool {
	switch common.ActionPhase(phase) {
	case common.ActionPhase_ACTION_PHASE_SUCCEEDED, common.ActionPhase_ACTION_PHASE_FAILED, common.ActionPhase_ACTION_PHASE_ABORTED,
		common.ActionPhase_ACTION_PHASE_TIMED_OUT, common.ActionPhase_ACTION_PHASE_RECOVERED:
		return true
	default:
		return false
	}
}

type runKey struct{ project, domain, name string }

func (k runKey) String() string { return k.project + "/" + k.domain + "/" + k.name }

func (k runKey) identifier() *common.RunIdentifier {
	return &common.RunIdentifier{Project: k.project, Domain: k.domain, Name: k.name}
}

// picture is what the page shows. It belongs to one goroutine.
type picture struct {
	follow func(runKey) (unfollow func())

	runs          map[runKey]*run
	followed      map[runKey]*followed
	runUpdates    uint64
	actionUpdates uint64
	failures      map[string]string // what → why
}

type run struct {
	phase   int32
	changed time.Time // by the database's clock
}

type followed struct {
	unfollow  func()
	actions   map[string]int32 // name → phase
	counts    []int            // by phase
	truncated bool             // there are more
}

func newPicture() *picture {
	return &picture{runs: map[runKey]*run{}, followed: map[runKey]*followed{}, failures: map[string]string{}}
}

func (p *picture) failed(what string, err error) { p.failures[what] = err.Error() }

func (p *picture) healed(what string) { delete(p.failures, what) }

func (p *picture) startRuns(rows []*models.Run) {
	for _, row := range rows {
		p.putRun(row)
	}
}

func (p *picture) runChanged(row *models.Run) {
	p.runUpdates++
	p.putRun(row)
}

// putRun notes a run as it was read. Reads may overtake each other; the row's own clock tells which is newer.
func (p *picture) putRun(row *models.Run) {
	key := runKey{row.Project, row.Domain, row.RunName}
	if r := p.runs[key]; r != nil && row.UpdatedAt.Before(r.changed) {
		return
	}
	p.runs[key] = &run{phase: row.Phase, changed: row.UpdatedAt}
	for len(p.runs) > maxRuns {
		p.dropOldest()
	}
}

// dropOldest forgets the run that has ended longest ago, or changed longest ago if none has ended.
func (p *picture) dropOldest() {
	var oldest runKey
	var found *run
	for key, r := range p.runs {
		if p.followed[key] == nil && (found == nil || endedFirst(r, found) < 0) {
			oldest, found = key, r
		}
	}
	delete(p.runs, oldest)
}

// endedFirst orders by use for a viewer, the least useful first.
func endedFirst(a, b *run) int {
	switch {
	case ended(a.phase) == ended(b.phase):
		return a.changed.Compare(b.changed)
	case ended(a.phase):
		return -1
	default:
		return 1
	}
}

// choose decides whose actions are followed: those of runs that go on, and of the ones that ended last. A run that goes on and is
// followed stays so, so that the picture does not jump.
func (p *picture) choose() {
	type candidate struct {
		key   runKey
		run   *run
		stays bool
	}
	var candidates []candidate
	for key, r := range p.runs {
		candidates = append(candidates, candidate{key, r, p.followed[key] != nil && !ended(r.phase)})
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(-compareBool(a.stays, b.stays), -endedFirst(a.run, b.run), strings.Compare(a.key.String(), b.key.String()))
	})
	chosen := map[runKey]bool{}
	for _, c := range candidates[:min(len(candidates), maxFollowed)] {
		chosen[c.key] = true
	}
	for key, f := range p.followed {
		if !chosen[key] {
			f.unfollow()
			delete(p.followed, key)
			p.healed("actions of " + key.String())
		}
	}
	for key := range chosen {
		if p.followed[key] == nil {
			p.followed[key] = &followed{unfollow: p.follow(key), actions: map[string]int32{}, counts: make([]int, phaseCount)}
		}
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

func (p *picture) actionsRead(key runKey, rows []*models.Action) {
	if f := p.followed[key]; f != nil {
		for _, row := range rows {
			f.put(row)
		}
	}
}

func (p *picture) actionChanged(key runKey, row *models.Action) {
	if f := p.followed[key]; f != nil {
		p.actionUpdates++
		f.put(row)
	}
}

func (f *followed) put(row *models.Action) {
	if row.Phase < 0 || int(row.Phase) >= phaseCount { // of a newer release
		return
	}
	before, known := f.actions[row.Name]
	switch {
	case known:
		f.counts[before]--
	case len(f.actions) >= maxActions:
		f.truncated = true
		return
	}
	f.actions[row.Name] = row.Phase
	f.counts[row.Phase]++
}

// frame is one picture as the browser gets it.
type frame struct {
	At            int64                   `json:"at"` // milliseconds since 1970
	Phases        []string                `json:"phases"`
	Runs          []int                   `json:"runs"`    // by phase
	Actions       []int                   `json:"actions"` // by phase, of the runs below
	RunUpdates    uint64                  `json:"runUpdates"`
	ActionUpdates uint64                  `json:"actionUpdates"`
	Followed      []followedRun           `json:"followed"`
	Failures      []string                `json:"failures"`
	Notify        interfaces.NotifyStatus `json:"notify"`
}

type followedRun struct {
	Project   string `json:"project"`
	Domain    string `json:"domain"`
	Name      string `json:"name"`
	Phase     int32  `json:"phase"`
	Actions   []int  `json:"actions"` // by phase
	Truncated bool   `json:"truncated"`
}

func (p *picture) frame(now time.Time, notify interfaces.NotifyStatus) frame {
	f := frame{
		At: now.UnixMilli(), Phases: phaseNames, Runs: make([]int, phaseCount), Actions: make([]int, phaseCount),
		RunUpdates: p.runUpdates, ActionUpdates: p.actionUpdates, Followed: []followedRun{}, Failures: []string{}, Notify: notify,
	}
	for _, r := range p.runs {
		if r.phase >= 0 && int(r.phase) < phaseCount {
			f.Runs[r.phase]++
		}
	}
	for key, run := range p.followed {
		for phase, n := range run.counts {
			f.Actions[phase] += n
		}
		f.Followed = append(f.Followed, followedRun{
			Project: key.project, Domain: key.domain, Name: key.name, Phase: p.runs[key].phase,
			Actions: run.counts, Truncated: run.truncated,
		})
	}
	slices.SortFunc(f.Followed, func(a, b followedRun) int {
		return cmp.Or(compareBool(ended(a.Phase), ended(b.Phase)),
			strings.Compare(a.Project, b.Project), strings.Compare(a.Domain, b.Domain), strings.Compare(a.Name, b.Name))
	})
	for _, what := range slices.Sorted(maps.Keys(p.failures)) {
		f.Failures = append(f.Failures, what+": "+p.failures[what])
	}
	return f
}

// phaseNames are the names of the phases by number, as people write them.
var phaseNames = func() []string {
	names := make([]string, phaseCount)
	for number, name := range common.ActionPhase_name {
		name = strings.TrimPrefix(name, "ACTION_PHASE_")
		names[number] = strings.ToLower(strings.ReplaceAll(name, "_", " "))
	}
	return names
}()
