//go:build unix

package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// poll is the pause between two looks at something that is about to happen in another process.
const poll = 20 * time.Millisecond

// endProcesses ends whatever runs over the folder's data: fast, then immediately, then by force, each within limit. A done ctx cuts the
// waiting short but not the ending. On return without an error, no such process is left.
func endProcesses(ctx context.Context, at folder, limit time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		pids := processesOver(at.data())
		if len(pids) == 0 {
			return nil
		}
		if signal == syscall.SIGKILL {
			ctx = context.WithoutCancel(ctx)
		} else if leader := at.leader(); slices.Contains(pids, leader) {
			pids = []int{leader} // it tells its children, and in the right order
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, signal) // it may be gone already
		}
		if awaitNone(ctx, at.data(), limit) {
			return nil
		}
	}
	return fmt.Errorf("processes %v over %s do not end", processesOver(at.data()), at.data())
}

func awaitNone(ctx context.Context, dataDir string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for len(processesOver(dataDir)) > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// reclaim makes the data ready for a new server after whatever happened to the former owner of the folder, whose lock we hold now.
func reclaim(ctx context.Context, at folder, limit time.Duration) error {
	if pids := processesOver(at.data()); len(pids) > 0 {
		logger.Warnf(ctx, "embedded postgresql: ending processes %v, left over from a former server over %s", pids, at.data())
	}
	if err := endProcesses(ctx, at, limit); err != nil {
		return err
	}
	// PostgreSQL takes the number in a stale pid file for a running server when any process of the account has it by now, as is likely
	// after the restart of a container. In all other cases it judges better than we do.
	if pid := at.leader(); pid != 0 && syscall.Kill(pid, 0) == nil {
		if err := os.Remove(at.pidFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("stale pid file: %w", err)
		}
	}
	return nil
}
