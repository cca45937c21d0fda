package server

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Clock maps the server's clock to ours.
type Clock struct {
	ahead time.Duration // the server's minus ours
}

// ReadClock compares the clocks: the server's is taken to be read in the middle of the shortest of 20 round trips. The
// error is less than half of that round trip, and close to none where both ways take the same time.
func ReadClock(ctx context.Context, conn *pgx.Conn) (Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var c Clock
	shortest := time.Duration(-1)
	for range 20 {
		var theirs time.Time
		sent := time.Now()
		if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&theirs); err != nil {
			return c, fmt.Errorf("ask the server for its clock: %w", err)
		}
		if took := time.Since(sent); shortest < 0 || took < shortest {
			shortest, c.ahead = took, theirs.Sub(sent.Add(took/2))
		}
	}
	return c, nil
}

// Since is the time from a moment on the server's clock to now. now is a reading of ours.
func (c Clock) Since(theirs, now time.Time) time.Duration {
	return now.Sub(theirs) + c.ahead
}
