package impl

import (
	"context"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

const (
	// readAheadRows is how many rows are asked for at a time, and kept ready at most: as many as payloads wait for one watcher.
	readAheadRows = subscriberCapacity
	// readAheadPayloads is how many payloads are remembered as to be read. Those beyond are read when their turn comes.
	readAheadPayloads = 4096
	// readAheadAge is how long a row may wait for its turn before it is read anew. A row that changes is read anew in any case, once the change
	// is heard of; this bounds how far behind a watcher can be while nothing can be heard.
	readAheadAge = time.Second
)

// readAhead reads for one watcher. A watcher of many rows hears of them in bursts and then asks for them one after the other: with 4 ms per
// round trip for no more than 250 a second, however many change. But what it will ask for is known, since it has been heard of. So
// with each row comes what the watcher is going to ask for next.
//
// A row may be used instead of a read of its own because it was read after the payload had arrived for which the watcher asks: whatever
// arrives later makes the row unusable before the watcher can be told of it.
//
// read belongs to the watcher's goroutine; note may be called by any other, does no I/O and waits for none.
type readAhead struct {
	// recent calls note for what arrived before the watcher came and may be told to it. It is used once.
	recent func(note func(payload string))
	// fetch reads the rows that payloads name, those that it finds.
	fetch func(ctx context.Context, payloads []string) (map[string]*models.Action, error)
	now   func() time.Time

	mu      sync.Mutex
	heard   map[string]bool // to be read
	queue   []string        // the same in order of arrival, and some that are not to be read any more
	reading map[string]bool // being read ahead, and not heard of since that began
	ready   map[string]readyRow
}

// readyRow is a row that was read ahead, and that has not been heard of since the reading began.
type readyRow struct {
	row  *models.Action
	from time.Time // when that was
}

// read returns the row that payload names, nil if there is none. readOne reads it by itself.
func (a *readAhead) read(ctx context.Context, payload string, readOne func() (*models.Action, error)) (*models.Action, error) {
	if a.recent != nil {
		a.recent(a.note)
		a.recent = nil
	}
	begin := a.now()
	row, next := a.take(payload, begin)
	if row != nil {
		return row, nil
	}
	rows, err := a.fetch(ctx, append([]string{payload}, next...))
	a.keep(next, rows, begin)
	if ctx.Err() != nil || rows[payload] == nil || err != nil {
		// Not there, not to be had in this way, or drawn into the failure of something else.
		return readOne()
	}
	return rows[payload], nil
}

// note says that payload has arrived: what it names has changed, and will be asked for.
func (a *readAhead) note(payload string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ready, payload)
	delete(a.reading, payload)
	if !a.heard[payload] && len(a.heard) < readAheadPayloads {
		a.heard[payload] = true
		a.queue = append(a.queue, payload)
	}
}

// take returns the row if it is ready; else what is to be read together with it.
func (a *readAhead) take(payload string, now time.Time) (row *models.Action, next []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, r := range a.ready {
		if now.Sub(r.from) > readAheadAge {
			delete(a.ready, key)
		}
	}
	if r, ready := a.ready[payload]; ready {
		delete(a.ready, payload)
		return r.row, nil
	}

	delete(a.heard, payload)
	for len(a.queue) > 0 && len(next)+len(a.ready) < readAheadRows-1 {
		first := a.queue[0]
		a.queue = a.queue[1:]
		if a.heard[first] {
			delete(a.heard, first)
			a.reading[first] = true
			next = append(next, first)
		}
	}
	return nil, next
}

// keep makes ready what was read and has not been heard of meanwhile. What was not found is left to be read when it is asked for.
func (a *readAhead) keep(asked []string, rows map[string]*models.Action, from time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, payload := range asked {
		if row := rows[payload]; row != nil && a.reading[payload] {
			a.ready[payload] = readyRow{row, from}
		}
	}
	clear(a.reading)
}
