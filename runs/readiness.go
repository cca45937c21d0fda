package runs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

// databaseCheck is the readiness check of the database: it answers, and takes writes. After a failover the pool may still lead to the former
// primary, where every write fails.
func databaseCheck(pool *sql.DB) func(context.Context) error {
	return func(ctx context.Context) error {
		var readOnly string
		if err := pool.QueryRowContext(ctx, "SHOW transaction_read_only").Scan(&readOnly); err != nil {
			return err
		}
		if readOnly == "on" {
			return errors.New("the server takes no writes: it is a standby, or made read only by default_transaction_read_only")
		}
		return nil
	}
}

// pumpPatience is how long changes may wait to be announced before the service calls itself not ready, so that writes go to a replica
// whose pump can send: twice the longest pause between two attempts, and no longer than it takes to notice a connection that is half open.
const pumpPatience = 10 * time.Second

// pumpCheck is the readiness check of the pump.
func pumpCheck(status func() interfaces.NotifyStatus) func(context.Context) error {
	return func(context.Context) error {
		for _, c := range status().Channels {
			if c.OldestAgeSeconds <= pumpPatience.Seconds() {
				continue
			}
			why := "no answer yet"
			if c.Failures > 0 {
				why = fmt.Sprintf("%d attempts failed: %s", c.Failures, c.LastError)
			}
			return fmt.Errorf("%s: %d changes wait to be announced, the first for %.0f s: %s", c.Channel, c.Pending, c.OldestAgeSeconds, why)
		}
		return nil
	}
}

// listenerPatience is how long the start waits for the listener. It usually takes a few round trips; where it cannot listen, behind a
// pooler in transaction mode for one, writes and reads are served all the same.
const listenerPatience = 5 * time.Second

// awaitListener waits until every change reaches the watchers, so that a service that says it is ready is.
func awaitListener(ctx context.Context, ready func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, listenerPatience)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			logger.Warnf(ctx, "serving although the listener is not ready after %s: %v", listenerPatience, err)
			return
		}
	}
}
