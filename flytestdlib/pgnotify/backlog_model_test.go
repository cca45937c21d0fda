package pgnotify

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The model is a world in which everything that is concurrent happens step by step, in an order that rapid draws: commits, notifications that
// are late, the distributor's looks, the broadcaster's offers to one subscriber after the other in between, subscribers that come some
// time after the snapshot that they start from, read whenever they like, and leave. What must hold in the end is what a user
// sees: once everything has come to rest, every subscriber shows the version of every key that is in the database.
type model struct {
	t *rapid.T

	now      time.Duration
	versions map[string]int
	changed  map[string]time.Duration // when the version was committed
	sent     []sentNote

	backlog *Backlog
	lane    *lane
	offer   *arrival // what the distributor offers on Notify

	holding bool // the broadcaster has taken a payload
	held    string
	left    []*modelSubscriber // to whom it has still to be offered; nil: not begun
	begun   bool

	subscribers []*modelSubscriber
	lostFrom    time.Duration // never: nothing was lost
	losses      int
	sweeping    *modelSweep
	looking     bool
	resting     bool // the end: nothing is drawn any more
}

type sentNote struct {
	key string
	at  time.Duration
}

type modelSweep struct {
	since  time.Duration
	after  string
	losses int
	end    func()
}

type modelSubscriber struct {
	name     int
	ch       chan string
	snapshot time.Duration
	view     map[string]int
	joined   bool
}

const (
	modelWindow  = 20 * time.Millisecond
	modelOverlap = 15 * time.Millisecond // longer than a notification is under way
)

const never = time.Duration(math.MaxInt64)

var modelKeys = []string{"a", "b", "c", "d", "e", "f"}

func newModel(t *rapid.T) *model {
	m := &model{t: t, versions: map[string]int{}, changed: map[string]time.Duration{}, lostFrom: never}
	b, err := NewBacklog(BacklogConfig{
		ReplayWindow: modelWindow,
		MaxPayloads:  rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "ceiling"),
	}, map[string]Subscribers{"c": m.each})
	if err != nil {
		t.Fatal(err)
	}
	b.now = func() time.Duration { return m.now }
	b.onLost = func(since time.Time) {
		m.losses++
		m.lostFrom = min(m.lostFrom, since.Sub(b.started))
	}
	b.refeeds.read = func(_ context.Context, arrived time.Time, after string) ([]Change, string, error) {
		if m.draw(5, "read") == 1 {
			return nil, "", fmt.Errorf("no luck")
		}
		return m.page(arrived.Sub(b.started)-modelOverlap, after)
	}
	m.backlog, m.lane = b, b.byName["c"]
	m.lane.lookedAt = 0
	return m
}

// draw draws one of n.
func (m *model) draw(n int, label string) int {
	if m.resting || n == 1 {
		return 0
	}
	return rapid.IntRange(0, n-1).Draw(m.t, label)
}

// page is the catch-up: keys that changed at or after since, two at a time.
func (m *model) page(since time.Duration, after string) (page []Change, next string, err error) {
	for _, key := range modelKeys {
		if key <= after || m.versions[key] == 0 || m.changed[key] < since {
			continue
		}
		if len(page) == 2 {
			return page, page[1].Payload, nil
		}
		page = append(page, Change{Channel: "c", Payload: key})
	}
	return page, "", nil
}

// each is Subscribers; while the distributor goes from one to the next, the others go on.
func (m *model) each(visit func(chan string)) {
	m.looking = true
	defer func() { m.looking = false }()
	for _, s := range m.subscribers {
		if s.joined {
			m.meanwhile()
			visit(s.ch)
		}
	}
	m.meanwhile()
}

func (m *model) meanwhile() {
	for m.draw(3, "meanwhile") == 1 {
		if m.draw(2, "who") == 0 {
			m.broadcast()
		} else {
			m.read()
		}
	}
}

func (m *model) commit() {
	key := rapid.SampledFrom(modelKeys).Draw(m.t, "key")
	m.versions[key]++
	m.changed[key] = m.now
	m.sent = append(m.sent, sentNote{key, m.now})
}

func (m *model) arrive() {
	if len(m.sent) > 0 {
		i := m.draw(len(m.sent), "note")
		m.backlog.arrive("c", m.sent[i].key)
		m.sent = slices.Delete(m.sent, i, i+1)
	}
}

// pass lets time go by, as far as nothing takes longer than it may.
func (m *model) pass() {
	by := time.Duration(rapid.SampledFrom([]int{1, 2, 5, 9, 2 * int(modelWindow/time.Millisecond)}).Draw(m.t, "ms")) * time.Millisecond
	for _, n := range m.sent {
		by = min(by, n.at+modelOverlap-time.Millisecond-m.now)
	}
	for _, s := range m.subscribers {
		if !s.joined {
			by = min(by, s.snapshot+modelWindow-m.now)
		}
	}
	m.now += max(by, 0)
}

// distribute is one step of the distributor's goroutine.
func (m *model) distribute() {
	if m.offer == nil {
		lane, next, there := m.backlog.take(0)
		if !there {
			m.look()
			return
		}
		lane.look(&next)
		m.offer = &next
		return
	}
	m.look()
}

func (m *model) look() { m.lane.look(nil) }

// fetch is one step of the goroutine that reads pages, and the distributor's taking it in.
func (m *model) fetch() {
	select {
	case ask := <-m.backlog.refeeds.requests:
		page := refeedPage{refeed: ask.refeed}
		page.changes, page.next, page.err = m.backlog.refeeds.read(context.Background(), m.backlog.started.Add(ask.since), ask.after)
		ask.refeed.accept(page, m.now)
		if page.err != nil {
			ask.refeed.retryAt = m.now + 2*time.Millisecond // without the jitter
		}
	default:
	}
}

// broadcast is one step of the broadcaster: take what is offered, or begin with the subscribers, or offer it to one of them.
func (m *model) broadcast() {
	switch {
	case !m.holding:
		if m.offer != nil && !m.looking {
			m.holding, m.begun, m.held = true, false, m.offer.payload
			m.lane.handedOn(*m.offer)
			m.offer = nil
		}
	case !m.begun:
		m.begun, m.left = true, nil
		for _, s := range m.subscribers {
			if s.joined {
				m.left = append(m.left, s)
			}
		}
	case len(m.left) == 0:
		m.holding = false
	default:
		i := m.draw(len(m.left), "offer to")
		select {
		case m.left[i].ch <- m.held:
		default:
		}
		m.left = slices.Delete(m.left, i, i+1)
	}
}

// locked says that somebody has the lock for reading.
func (m *model) locked() bool { return m.looking || m.holding && m.begun && len(m.left) > 0 }

func (m *model) subscribe() {
	if len(m.subscribers) > 3 {
		return
	}
	s := &modelSubscriber{
		name: len(m.subscribers), snapshot: m.now, view: map[string]int{},
		ch: make(chan string, rapid.SampledFrom([]int{1, 2, 3, 5}).Draw(m.t, "capacity")),
	}
	for key, version := range m.versions {
		s.view[key] = version
	}
	m.subscribers = append(m.subscribers, s)
}

func (m *model) join() {
	for _, s := range m.subscribers {
		if !s.joined && !m.locked() {
			s.joined = true
			return
		}
	}
}

func (m *model) leave() {
	if len(m.subscribers) == 0 || m.locked() {
		return
	}
	i := rapid.IntRange(0, len(m.subscribers)-1).Draw(m.t, "leaves")
	close(m.subscribers[i].ch) // a send from now on panics
	m.subscribers = slices.Delete(m.subscribers, i, i+1)
}

func (m *model) read() {
	if len(m.subscribers) == 0 {
		return
	}
	m.subscribers[rapid.IntRange(0, len(m.subscribers)-1).Draw(m.t, "reads")].read(m)
}

func (s *modelSubscriber) read(m *model) bool {
	select {
	case key := <-s.ch:
		s.view[key] = m.versions[key]
		return true
	default:
		return false
	}
}

// sweep is a step of the owner's answer to onLost: one change, when there is room for it.
func (m *model) sweep() {
	if m.looking {
		return
	}
	if m.sweeping == nil {
		if m.lostFrom == never {
			return
		}
		since := m.lostFrom - modelOverlap
		m.sweeping = &modelSweep{since: since, losses: m.losses, end: m.backlog.retelling(m.backlog.started.Add(since))}
	}
	if m.backlog.crowded("c") {
		return
	}
	page, _, _ := m.page(m.sweeping.since, m.sweeping.after)
	if len(page) == 0 {
		if m.sweeping.losses == m.losses {
			m.lostFrom = never
		}
		m.sweeping.end()
		m.sweeping = nil
		return
	}
	m.sweeping.after = page[0].Payload
	m.backlog.arrive("c", page[0].Payload)
}

func (m *model) anyToJoin() bool {
	return slices.ContainsFunc(m.subscribers, func(s *modelSubscriber) bool { return !s.joined })
}

// rest lets everything come to its end, fairly.
func (m *model) rest() {
	m.resting = true
	defer func() { m.resting = false }()
	for m.anyToJoin() { // before their time runs out
		m.broadcast()
		m.join()
	}
	for i := 0; ; i++ {
		if i > 10_000 {
			m.t.Fatal("it does not come to rest")
		}
		for len(m.sent) > 0 {
			m.arrive()
		}
		m.now += time.Millisecond
		m.sweep()
		m.distribute()
		m.fetch()
		for range 2 * (len(m.subscribers) + 3) {
			m.broadcast()
		}
		busy := m.offer != nil || m.holding || m.lostFrom != never || m.lane.behind > 0 || m.lane.log.size().waiting > 0
		for _, s := range m.subscribers {
			busy = busy || m.lane.known[s.ch] == nil
			for s.read(m) {
				busy = true
			}
		}
		if !busy {
			return
		}
	}
}

func TestBacklogModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		steps := []func(){
			m.commit, m.commit, m.arrive, m.arrive, m.pass, m.distribute, m.distribute, m.distribute, m.fetch,
			m.broadcast, m.broadcast, m.broadcast, m.broadcast, m.subscribe, m.join, m.leave, m.read, m.read, m.sweep,
		}
		for range rapid.IntRange(1, 10).Draw(t, "rounds") {
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")]()
				if size := m.lane.log.size(); size.kept > m.lane.log.maxPayloads {
					t.Fatalf("%d payloads kept, at most %d allowed", size.kept, m.lane.log.maxPayloads)
				}
			}
			m.rest()
			m.check()
		}
	})
}

func (m *model) check() {
	for _, s := range m.subscribers {
		for key, version := range m.versions {
			if s.view[key] != version {
				m.t.Fatalf("subscriber %d shows version %d of %s, the database has %d", s.name, s.view[key], key, version)
			}
		}
	}
	if known := len(m.lane.known); known != len(m.subscribers) {
		m.t.Fatalf("%d subscribers known, there are %d", known, len(m.subscribers))
	}
}
