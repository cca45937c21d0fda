package runs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/config"
)

// announce says that the service is ready, where, on which database, and what to try: in the log and, where the log is meant for
// people, as a few lines on out.
func announce(ctx context.Context, out io.Writer, address string, cfg config.Config, server databaseServer) {
	logger.Infof(ctx, "ready: serving on %s, database %s, notify mode %s", address, server.description, cfg.Runs.Notify.Mode)
	if cfg.Logger.Format != logger.FormatText {
		return
	}

	metrics := "off"
	if cfg.Server.MetricsAddress != "" {
		metrics = "http://" + cfg.Server.MetricsAddress + "/metrics"
	}
	url := "http://" + address
	// A closed output is no reason to stop serving.
	_, _ = fmt.Fprintf(out, strings.TrimPrefix(`
The runs service is ready.

  RPCs       %[1]s   Connect, gRPC and gRPC-Web, over HTTP/1.1 and h2c
  status     %[1]s/   for a browser
  readiness  %[1]s/readyz
  metrics    %[2]s
  database   %[3]s
  notify     mode %[4]s

Start a run, and list the runs of its project:

  curl %[1]s/flyteidl2.workflow.InternalRunService/RecordAction -H 'Content-Type: application/json' \
    -d '{"actionId":{"run":{"org":"o","project":"p","domain":"d","name":"r1"},"name":"a0"},"trace":{}}'
  curl %[1]s/flyteidl2.workflow.RunService/ListRuns -H 'Content-Type: application/json' \
    -d '{"projectId":{"organization":"o","domain":"d","name":"p"}}'

`, "\n"), url, metrics, server.description, cfg.Runs.Notify.Mode)
}
