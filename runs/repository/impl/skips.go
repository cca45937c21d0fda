package impl

import (
	"context"
	"time"
)

// skipLinePause is the time between two lines about full subscribers. Under load there are thousands of them a second, for as long as the load
// lasts, and nothing is wrong: the backlog keeps for each what it was not offered. Whether one stays behind is for a metric to tell.
const skipLinePause = 15 * time.Minute

// saySkipped tells of a payload that a full subscriber was not offered.
func (r *actionRepo) saySkipped(ctx context.Context, channel, payload string) {
	r.skipLines.Warnf(ctx, channel,
		"watchers on %s read more slowly than changes come: %q is kept for one and delivered when it has room; nothing is lost and nothing needs doing",
		channel, payload)
}
