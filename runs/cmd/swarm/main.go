// Command swarm drives a runs service with the load of many concurrent runs, and reports what its clients would see: the latency of
// each RPC, and how long the watch streams lag behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// Exit codes.
const (
	exitFailed      = 1   // could not run: bad flags, no service
	exitUnclean     = 2   // ran, but calls failed, or watchers or runs are missing
	exitInterrupted = 130 // as shells have it for SIGINT
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	// What we start logs at info that it has started, which is no news here.
	err := logger.Setup(logger.Config{Level: logger.LevelWarn, Format: logger.FormatText}, os.Stderr)
	if err == nil {
		err = command().ExecuteContext(ctx)
	}
	switch {
	case err == nil:
	case errors.Is(err, errInterrupted):
		os.Exit(exitInterrupted)
	default:
		fmt.Fprintln(os.Stderr, "swarm:", err)
		var unclean uncleanError
		if errors.As(err, &unclean) {
			os.Exit(exitUnclean)
		}
		os.Exit(exitFailed)
	}
}
