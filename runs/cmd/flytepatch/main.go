// Command flytepatch makes this repository's change in a checkout of flyteorg/flyte, as commits:
//
//	go run ./runs/cmd/flytepatch --flyte DIR (--check | --out patches/ | --apply)
//
// docs/upstream.md says what the change is, --help what the command does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/series"
)

// Exit codes.
const (
	exitRefused     = 1   // not made, and nothing was changed; also: a bad command line
	exitApplied     = 3   // the checkout has the change already
	exitInterrupted = 130 // as shells have it for SIGINT
)

func main() {
	// Signals are caught until the end: whoever presses Ctrl-C twice still gets a clean checkout.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := command().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "flytepatch:", err)
	switch {
	case ctx.Err() != nil:
		os.Exit(exitInterrupted)
	case errors.Is(err, series.ErrApplied):
		os.Exit(exitApplied)
	default:
		os.Exit(exitRefused)
	}
}
