//go:build unix

package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// ephemeralPrefix begins the names of the folders of ephemeral servers in the temporary folder.
const ephemeralPrefix = "flyte-postgres-"

// reclaim makes the data ready for a new server after whatever happened to the former owner of the folder, whose lock we hold now:
// a server of his that still runs is stopped, and a pid file that names a stranger by now is removed.
func reclaim(ctx context.Context, at folder, limit time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		pids := processesOver(at.data())
		if len(pids) == 0 {
			break
		}
		logger.Warnf(ctx, "embedded postgresql: processes %v of a former server still run over %s: sending %s", pids, at.data(), signal)
		for _, pid := range pids {
			_ = syscall.Kill(pid, signal)
		}
		if err := awaitNone(ctx, at.data(), limit); err == nil {
			break
		} else if ctx.Err() != nil || signal == syscall.SIGKILL {
			return err
		}
	}
	// PostgreSQL itself refuses to start when the number in the file is that of any living process of the same account, which after
	// a restart of a container it often is.
	if err := os.Remove(filepath.Join(at.data(), "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func awaitNone(ctx context.Context, dataDir string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		pids := processesOver(dataDir)
		if len(pids) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v of a former server over %s have not ended within %s: %w", pids, dataDir, limit, ctx.Err())
		case <-ticker.C:
		}
	}
}
