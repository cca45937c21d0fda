package impl

import (
	linkedlist "container/list"
	"context"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// readAheadRows is how many rows are asked for at a time, and kept ready at most: as many as payloads wait for one watcher.
	readAheadRows = subscriberCapacity
	// readAheadPayloads is how many payloads are remembered as to be read, at some hundred bytes each. Those beyond are read when their turn
	// comes.
	readAheadPayloads = 1 << 14
	// readAheadAge is how long a row may wait for its turn before it is read anew. A row that changes is read anew in any case, once the change
	// is heard of; this bounds how far behind a watcher can be while nothing can be heard. It is not shorter, because on a machine
	// that is slow a hundred rows last that long.
	readAheadAge = 10 * time.Second
	// readAheadGiven is how many rows that a watcher has been given are remembered at most.
	readAheadGiven = 4 * readAheadRows
)

// readAhead reads for one watcher. A watcher of many rows hears of them in bursts and then asks for them one after the other: with 4 ms per
// round trip for no more than 250 a second, however many change. But what it will ask for is known, since it has been heard of. So
// with each row comes what the watcher is going to ask for next.
//
// A row may be used instead of a read of its own because it was read after the payload had arrived for which the watcher asks: whatever
// arrives later makes the row unusable before the watcher can be told of it. For the same reason it may be used again: a
// payload that arrives twice before its turn may be asked for twice.
//
//	note ─► heard ─► reading ─► ready ─► given        note takes a payload from wherever it is back to the end of heard
//
// read belongs to the watcher's goroutine; note may be called by any other, does no I/O and waits for none.
type readAhead struct {
	// hears says that note is called for every payload that may be told to the watcher. Without it no row is used but for the call that read it.
	hears bool
	// recent, if set, returns what arrived before note was called for everything and may be told to the watcher, in the order in which it arrived, and
	// perhaps some of what arrived since. It is used once.
	recent func() []string
	// fetch reads the rows that payloads name, those that it finds.
	fetch func(ctx context.Context, payloads []string) (map[string]*models.Action, error)
	// alone is the payload whose row was there last, but could not be had from fetch. It belongs to the watcher's goroutine.
	alone string

	mu      sync.Mutex
	heard   map[string]*linkedlist.Element // to be read
	queue   linkedlist.List                // the same, in the order in which they arrived last; so does the backlog tell those who are behind
	reading map[string]bool                // being read, and not heard of since that began
	ready   map[string]readyRow            // read, not asked for yet, and not heard of since the reading began
	given   map[string]givenRow            // the same, but given to the watcher
}

func newReadAhead(fetch func(ctx context.Context, payloads []string) (map[string]*models.Action, error)) *readAhead {
	return &readAhead{
		fetch: fetch,
		heard: map[string]*linkedlist.Element{}, reading: map[string]bool{}, ready: map[string]readyRow{}, given: map[string]givenRow{},
	}
}

// readyRow is a row that was read ahead; nil one that fetch did not find, and that the watcher must read by itself.
type readyRow struct {
	row  *models.Action
	from time.Time // when the reading began
}

// givenRow is held by the watcher and those behind it, not by us.
type givenRow struct {
	row  weak.Pointer[models.Action]
	from time.Time
}

// read returns the row that payload names, nil if there is none. readOne reads it by itself.
func (a *readAhead) read(ctx context.Context, payload string, readOne func() (*models.Action, error)) (*models.Action, error) {
	if a.recent != nil {
		a.hearOf(a.recent())
		a.recent = nil
	}
	begin := time.Now()
	row, asked := a.take(payload, begin)
	switch {
	case row != nil:
		return row, nil
	case len(asked) == 0:
		return readOne()
	}
	rows, err := a.fetch(ctx, asked)
	if err != nil && ctx.Err() == nil {
		// A connection that breaks takes with it what many wait for. They come together once more, before each helps itself.
		rows, err = a.fetch(ctx, asked)
	}
	a.keep(asked, rows, err, begin)
	if err == nil && rows[payload] != nil {
		return rows[payload], nil
	}
	// Not there, not to be had in this way, or drawn into the failure of something else.
	row, readErr := readOne()
	if err == nil && row != nil {
		a.alone = payload
	}
	return row, readErr
}

// note says that payload has arrived: what it names has changed, and will be asked for.
func (a *readAhead) note(payload string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.reading, payload)
	delete(a.ready, payload)
	delete(a.given, payload)
	if place := a.heard[payload]; place != nil {
		a.queue.MoveToBack(place)
	} else if len(a.heard) < readAheadPayloads {
		a.heard[payload] = a.queue.PushBack(payload)
	}
}

// hearOf puts what arrived before the rest in front of it.
func (a *readAhead) hearOf(earlier []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, payload := range slices.Backward(earlier) {
		if a.heard[payload] == nil && len(a.heard) < readAheadPayloads {
			a.heard[payload] = a.queue.PushFront(payload)
		}
	}
}

// take returns the row that payload names, if it has been read; else what to read, payload first. Neither says that payload must be read by itself.
func (a *readAhead) take(payload string, now time.Time) (row *models.Action, asked []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ready := a.ready[payload]; ready {
		delete(a.ready, payload)
		if r.row == nil {
			return nil, nil
		}
		a.give(payload, r.row, r.from)
	}
	if g, given := a.given[payload]; given && now.Sub(g.from) <= readAheadAge {
		if row := g.row.Value(); row != nil {
			return row, nil
		}
	}
	a.unhear(payload)
	if payload == a.alone {
		return nil, nil
	}

	asked = append(asked, payload)
	for key, r := range a.ready {
		if now.Sub(r.from) > readAheadAge {
			delete(a.ready, key)
		}
	}
	for a.queue.Len() > 0 && len(asked)+len(a.ready) < readAheadRows {
		next := a.queue.Front().Value.(string)
		a.unhear(next)
		asked = append(asked, next)
	}
	for _, payload := range asked {
		a.reading[payload] = a.hears
	}
	if len(a.heard) == 0 {
		a.heard = map[string]*linkedlist.Element{} // a map keeps the room that it once needed
	}
	return nil, asked
}

// unhear is called with mu held.
func (a *readAhead) unhear(payload string) {
	if place := a.heard[payload]; place != nil {
		a.queue.Remove(place)
		delete(a.heard, payload)
	}
}

// keep keeps what was read and has not been heard of meanwhile; the first of what was asked for is given to the watcher.
func (a *readAhead) keep(asked []string, rows map[string]*models.Action, err error, from time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, payload := range asked {
		switch row := rows[payload]; {
		case err != nil || !a.reading[payload]:
		case i > 0:
			a.ready[payload] = readyRow{row, from}
		case row != nil:
			a.give(payload, row, from)
		}
	}
	clear(a.reading)
}

// give notes that the watcher is given the row. It is called with mu held.
func (a *readAhead) give(payload string, row *models.Action, from time.Time) {
	if len(a.given) >= readAheadGiven {
		clear(a.given)
	}
	a.given[payload] = givenRow{weak.Make(row), from}
}
