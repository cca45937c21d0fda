package pgproxy

import (
	"strings"
	"sync"
	"sync/atomic"
)

// AppStats is what crossed the proxy for one application_name since Start, as the client saw it.
type AppStats struct {
	// Connections opened, the failed log-ins among them; cancel requests are not counted.
	Connections int64
	// Statements executed: Query and Execute messages. A Query of several statements counts once.
	Statements int64
	// RoundTrips is how often the client waited for the server and got what it waited for. Messages sent in a pipeline make one
	// together. Log-in is not counted.
	RoundTrips int64
	// Notifications (NOTIFY) delivered.
	Notifications int64
	// BytesToServer and BytesToClient, the start-up included.
	BytesToServer, BytesToClient int64
}

func (a AppStats) plus(b AppStats) AppStats {
	return AppStats{
		Connections:   a.Connections + b.Connections,
		Statements:    a.Statements + b.Statements,
		RoundTrips:    a.RoundTrips + b.RoundTrips,
		Notifications: a.Notifications + b.Notifications,
		BytesToServer: a.BytesToServer + b.BytesToServer,
		BytesToClient: a.BytesToClient + b.BytesToClient,
	}
}

// Stats by application_name; "" holds the connections that gave none.
type Stats map[string]AppStats

// Matching sums up the applications whose name ends in the given suffix; "" sums up all.
func (s Stats) Matching(appNameSuffix string) AppStats {
	var sum AppStats
	for app, a := range s {
		if strings.HasSuffix(app, appNameSuffix) {
			sum = sum.plus(a)
		}
	}
	return sum
}

// Stats returns a copy of the figures. The numbers of one application are read one after the other: while it is busy they may
// differ by the messages of that moment.
func (p *Proxy) Stats() Stats {
	p.stats.mu.Lock()
	defer p.stats.mu.Unlock()
	all := make(Stats, len(p.stats.apps))
	for app, c := range p.stats.apps {
		all[app] = AppStats{
			Connections:   c.connections.Load(),
			Statements:    c.statements.Load(),
			RoundTrips:    c.roundTrips.Load(),
			Notifications: c.notifications.Load(),
			BytesToServer: c.toServer.Load(),
			BytesToClient: c.toClient.Load(),
		}
	}
	return all
}

type counters struct {
	connections, statements, roundTrips, notifications, toServer, toClient atomic.Int64
}

type stats struct {
	mu   sync.Mutex
	apps map[string]*counters
}

func (s *stats) of(app string) *counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.apps[app]
	if c == nil {
		c = &counters{}
		s.apps[app] = c
	}
	return c
}
