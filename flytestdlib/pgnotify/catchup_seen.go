package pgnotify

import "sync"

// sightings remembers what is known to have reached the watchers: for each payload the snapshot under which it was last
// sent, and the snapshot of the last complete sweep, behind which everything has been judged already. To forget something
// is always safe: it is announced once more than needed.
type sightings struct {
	limit int // of payloads remembered

	mu sync.Mutex
	// What was seen since the mark of the sweep under way, and before it. When that sweep is complete, the older ones tell nothing that
	// its own snapshot does not tell, and go.
	recent, older map[sighting]*snapshot
	swept         *snapshot
}

type sighting struct{ channel, payload string }

func newSightings(limit int) *sightings {
	return &sightings{limit: limit, recent: map[sighting]*snapshot{}}
}

// saw notes that a notification was received whose sender's statement ran under sent.
func (s *sightings) saw(channel, payload string, sent *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sighting{channel, payload}
	if _, there := s.recent[key]; there || len(s.recent)+len(s.older) < s.limit {
		s.recent[key] = sent
	}
}

// mark is called when a sweep takes its snapshot.
func (s *sightings) mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.older == nil { // else the last sweep failed, and what it left is still needed
		s.older, s.recent = s.recent, map[sighting]*snapshot{}
	}
}

// settle is called when the sweep that began with this snapshot is complete.
func (s *sightings) settle(swept *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.older, s.swept = nil, swept
}

// reset forgets everything.
func (s *sightings) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent, s.older, s.swept = map[sighting]*snapshot{}, nil, nil
}

// cover tells whether the watchers are known to have what c tells.
func (s *sightings) cover(c Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sighting{c.Channel, c.Payload}
	for _, sent := range [...]*snapshot{s.swept, s.recent[key], s.older[key]} {
		if sent != nil && sent.sees(c.XID) {
			return true
		}
	}
	return false
}
