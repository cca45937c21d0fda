package pgnotify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pumpModel is what must be true of a pump, its sender and a server that misbehaves, whatever happens in which order:
//
//	a payload that was added is announced after that add, or it is still waiting to be;
//	and the counts add up.
//
// "Announced" is what the server has committed, not what the sender believes.
type pumpModel struct {
	t      *rapid.T
	pump   *Pump
	sender *Sender
	server *fakeServer

	// owed are the "channel payload"s whose last add was not followed by an announcement.
	owed   map[string]bool
	heard  int // of server.heard that have been taken off owed
	closed bool
	batch  *Batch // taken and not yet sent: a step of its own, so that adds come between
	sent   *Outcome

	// What the server does next.
	refuseDial bool
	killBefore int // the statement, counted from now, that is killed before its commit; 0: none
	killAfter  int // the one whose answer is lost
	bad        string
}

var (
	modelChannels = []string{"a", "b"}
	modelPayloads = []string{"1", "2", "3", "4", "5", "6", "7", "8", "nul\x00", "cannot"}
	errModel      = errors.New("connection reset by peer")
)

func newPumpModel(t *rapid.T) *pumpModel {
	m := &pumpModel{t: t, owed: map[string]bool{}, server: &fakeServer{}}
	m.server.dial = func() error {
		if m.refuseDial {
			return errModel
		}
		return nil
	}
	m.server.exec = func(s fakeStatement) error {
		m.meanwhile(s.Channel)
		if m.killBefore--; m.killBefore == 0 {
			return rapid.SampledFrom([]error{errModel, state("57P01"), state("54000"), state("25006"), state("57014")}).Draw(t, "fault")
		}
		if m.bad != "" && slices.Contains(s.Payloads, m.bad) {
			return state("22P05")
		}
		return nil
	}
	m.server.answer = func(s fakeStatement) error {
		m.take()
		m.meanwhile(s.Channel)
		if m.killAfter--; m.killAfter == 0 {
			return errModel
		}
		return nil
	}
	pump, err := NewPump(modelChannels...)
	require.NoError(t, err)
	sender, err := NewSenderOn(m.server.pool(noCleanup{}), SenderConfig{})
	require.NoError(t, err)
	m.pump, m.sender = pump, sender
	return m
}

// noCleanup is a testing.TB for what rapid repeats many times within one test.
type noCleanup struct{ testing.TB }

func (noCleanup) Helper()        {}
func (noCleanup) Cleanup(func()) {}

func (m *pumpModel) add(channel, payload string) {
	if accepted := m.pump.Add(channel, payload); accepted == m.closed {
		m.t.Fatalf("added: %v, closed: %v", accepted, m.closed)
	}
	if !m.closed && !hopeless(payload) {
		m.owed[channel+" "+payload] = true
	}
}

// hopeless payloads need not arrive: nobody can announce them.
func hopeless(payload string) bool { return strings.Contains(payload, "\x00") || payload == "cannot" }

// meanwhile is a writer that adds while a statement is under way.
func (m *pumpModel) meanwhile(channel string) {
	if rapid.IntRange(0, 3).Draw(m.t, "meanwhile") == 0 {
		m.add(channel, rapid.SampledFrom(modelPayloads).Draw(m.t, "payload"))
	}
}

// take takes what the server has committed off what is owed.
func (m *pumpModel) take() {
	heard := m.server.hears()
	for _, said := range heard[m.heard:] {
		delete(m.owed, said)
	}
	m.heard = len(heard)
}

func (m *pumpModel) Add(t *rapid.T) {
	m.add(rapid.SampledFrom(modelChannels).Draw(t, "channel"), rapid.SampledFrom(modelPayloads).Draw(t, "payload"))
}

// Take takes the batch that is due, rests being over.
func (m *pumpModel) Take(t *rapid.T) {
	if m.batch != nil || m.sent != nil {
		return // one batch at a time
	}
	channel, _, more := m.pump.next(time.Now().Add(time.Hour))
	if channel == "" {
		if m.closed && len(m.owed) == 0 && more {
			t.Fatal("closed and empty, and yet not at its end")
		}
		return
	}
	batch := m.pump.Take(channel)
	if len(batch.Entries) == 0 {
		t.Fatal("due without work")
	}
	m.batch = &batch
}

func (m *pumpModel) Send(t *rapid.T) {
	if m.batch == nil {
		return
	}
	m.refuseDial = rapid.IntRange(0, 9).Draw(t, "refuse") == 0
	m.killBefore = rapid.IntRange(0, 4).Draw(t, "kill before")
	m.killAfter = rapid.IntRange(0, 4).Draw(t, "kill after")
	m.bad = rapid.SampledFrom([]string{"", "cannot"}).Draw(t, "bad")
	out := m.sender.Send(t.Context(), *m.batch)
	m.batch, m.sent = nil, &out
}

func (m *pumpModel) Settle(t *rapid.T) {
	if m.sent == nil {
		return
	}
	m.pump.Settle(*m.sent)
	m.sent = nil
}

func (m *pumpModel) Close(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
		m.pump.refuse()
		m.closed = true
	}
}

func (m *pumpModel) Check(t *rapid.T) {
	waiting := map[string]bool{}
	for _, channel := range modelChannels {
		requireSum(t, m.pump.Stats(channel).PendingStats)
		c := m.pump.channel(channel)
		for n := c.pending.first; n != nil; n = n.next {
			waiting[channel+" "+n.Payload] = true
		}
	}
	// What is in flight and not yet settled waits too, as far as it will come back or has not left.
	if m.batch != nil {
		for _, e := range m.batch.Entries {
			waiting[m.batch.Channel+" "+e.Payload] = true
		}
	}
	if m.sent != nil {
		for _, e := range m.sent.Undelivered {
			waiting[m.sent.Batch.Channel+" "+e.Payload] = true
		}
	}
	for owed := range m.owed {
		if !waiting[owed] {
			t.Fatalf("%q was added after it was last announced, and waits nowhere", owed)
		}
	}
	stats := m.sender.db.Stats()
	if stats.InUse != 0 || stats.OpenConnections != m.server.open {
		t.Fatalf("a connection has leaked: %+v, %d at the server", stats, m.server.open)
	}
}

// finish lets the weather clear: everything that is owed arrives.
func (m *pumpModel) finish() {
	m.refuseDial, m.killBefore, m.killAfter, m.bad = false, 0, 0, "cannot"
	if m.batch != nil {
		out := m.sender.Send(m.t.Context(), *m.batch)
		m.pump.Settle(out)
	}
	if m.sent != nil {
		m.pump.Settle(*m.sent)
	}
	for range 100 {
		channel, _, _ := m.pump.next(time.Now().Add(time.Hour))
		if channel == "" {
			break
		}
		m.pump.Settle(m.sender.Send(m.t.Context(), m.pump.Take(channel)))
	}
	m.take()
	require.Empty(m.t, m.owed)
	for _, channel := range modelChannels {
		s := m.pump.Stats(channel).PendingStats
		requireSum(m.t, s)
		require.Zero(m.t, s.Pending+s.InFlight, fmt.Sprint(channel))
	}
	require.NoError(m.t, m.sender.db.Close())
	require.Zero(m.t, m.server.open)
}

func TestNothingIsLostWhateverHappens(t *testing.T) {
	_ = logged(t, func() {
		rapid.Check(t, func(t *rapid.T) {
			m := newPumpModel(t)
			t.Repeat(map[string]func(*rapid.T){
				"add": m.Add, "take": m.Take, "send": m.Send, "settle": m.Settle, "close": m.Close, "": m.Check,
			})
			m.finish()
		})
	})
}
