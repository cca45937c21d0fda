package impl

import (
	"context"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// skipLinePause is the time between two lines about full subscribers.
const skipLinePause = 10 * time.Second

// skips writes about full subscribers: under load there are thousands, and nothing is wrong, since the backlog keeps for each what it was not
// offered. The zero value is ready; say may be called from any goroutine.
type skips struct {
	mu       sync.Mutex
	nextLine time.Time
	untold   int
}

// say tells of a payload that a full subscriber was not offered, or counts it for the next line.
func (s *skips) say(ctx context.Context, channel, payload string, now time.Time) {
	s.mu.Lock()
	if now.Before(s.nextLine) {
		s.untold++
		s.mu.Unlock()
		return
	}
	untold := s.untold
	s.nextLine, s.untold = now.Add(skipLinePause), 0
	s.mu.Unlock() // a log may block

	logger.Warnf(ctx, "a subscriber of %s is full, skipping %q for it, which it is given later (%d more since the last line)", channel, payload, untold)
}
