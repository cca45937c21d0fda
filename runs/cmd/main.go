// Command cmd is the runs service. Its flags, variables and keys are listed by --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	flyteconfig "github.com/flyteorg/flyte/v2/flytestdlib/config"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs"
	"github.com/flyteorg/flyte/v2/runs/config"
)

// Exit codes: 1 for a service that failed, 2 for one that was called wrongly, 128 + signal after a second signal.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	cfg, err := config.Load(os.Args[1:], os.Environ(), os.Stdout)
	if errors.Is(err, flyteconfig.ErrHelp) {
		return
	}
	if err == nil {
		err = logger.Setup(cfg.Logger, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUsage)
	}
	// The log has the error by now.
	if err := runs.Run(context.Background(), cfg, os.Stdout); err != nil {
		os.Exit(exitFailed)
	}
}
