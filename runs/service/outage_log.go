package service

import (
	"context"
	"sync"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// outageLinePause is the time between two lines about requests that failed for want of the database.
const outageLinePause = time.Second

// outages writes about the requests that fail while the database is away: every one of them does, some thousand a second, and one says as
// much as all.
var outages outageLog

// outageLog is ready as its zero value; say may be called from any goroutine.
type outageLog struct {
	mu       sync.Mutex
	nextLine time.Time
	untold   int
}

// say tells of a request that failed, or counts it for the next line.
func (o *outageLog) say(ctx context.Context, procedure string, err error, now time.Time) {
	o.mu.Lock()
	if now.Before(o.nextLine) {
		o.untold++
		o.mu.Unlock()
		return
	}
	untold := o.untold
	o.nextLine, o.untold = now.Add(outageLinePause), 0
	o.mu.Unlock() // a log may block

	logger.Warnf(ctx, "%s: %v (%d more requests failed for want of the database since the last such line)", procedure, err, untold)
}
