package load

import "sync"

// task is what a worker does next: begin a run (number 0) or drive one child.
type task struct {
	run    *run
	number int
}

// dispatcher hands out the tasks: begins as many runs as may be in progress, and gives out their children by turns.
type dispatcher struct {
	mu         sync.Mutex
	changed    *sync.Cond
	create     func(number int) *run
	total      int
	parallel   int
	begun      int
	inProgress int
	begunRuns  []*run // with children to hand out
	turn       int
	stopped    bool
}

func newDispatcher(total, parallel int, create func(int) *run) *dispatcher {
	d := &dispatcher{create: create, total: total, parallel: parallel}
	d.changed = sync.NewCond(&d.mu)
	return d
}

// take waits for a task; false when there will be none.
func (d *dispatcher) take() (task, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.stopped:
			return task{}, false
		case d.begun < d.total && d.inProgress < d.parallel:
			d.begun++
			d.inProgress++
			return task{run: d.create(d.begun)}, true
		case len(d.begunRuns) > 0:
			return d.child(), true
		case d.inProgress == 0:
			return task{}, false
		}
		d.changed.Wait()
	}
}

func (d *dispatcher) child() task {
	d.turn %= len(d.begunRuns)
	r := d.begunRuns[d.turn]
	t := task{run: r, number: r.next}
	r.next++
	if r.next == len(r.actions) {
		d.begunRuns = append(d.begunRuns[:d.turn], d.begunRuns[d.turn+1:]...)
	} else {
		d.turn++
	}
	return t
}

// ready puts up a run that has begun: its children can be handed out.
func (d *dispatcher) ready(r *run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begunRuns = append(d.begunRuns, r)
	d.changed.Broadcast()
}

// ended makes room for the next run.
func (d *dispatcher) ended() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inProgress--
	d.changed.Broadcast()
}

// stop ends the handing out; tasks in hand go on.
func (d *dispatcher) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.changed.Broadcast()
}
