package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/progress"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/report"
)

var errInterrupted = errors.New("interrupted")

// uncleanError is a load that ran, and whose result is not what a healthy service gives.
type uncleanError struct{ error }

func command() *cobra.Command {
	cfg := load.DefaultConfig()
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "swarm",
		Short: "Drive a runs service with many concurrent runs and report what its clients see",
		Long: `swarm records runs of many actions, takes every action from QUEUED through INITIALIZING and RUNNING to SUCCEEDED, and watches
the streams meanwhile. It reports each RPC's rate and latency, and how long after the answer the watch streams show the terminal phase.

Exit code: 0 clean; 1 could not run; 2 calls failed, or watchers or runs are missing; 130 interrupted (the report is printed).`,
		Example: `  swarm --k 25 --n 2000 --duration 2m
  swarm --endpoint http://flyte.example:8090 --concurrency 200 --json > result.json`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLoad(cmd, cfg, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&cfg.Endpoint, "endpoint", cfg.Endpoint, "base `URL` of the runs service")
	loadFlags(flags, &cfg)
	flags.StringVar(&cfg.Org, "org", cfg.Org, "`organization` of the runs")
	flags.StringVar(&cfg.Project, "project", cfg.Project, "`project` of the runs")
	flags.StringVar(&cfg.Domain, "domain", cfg.Domain, "`domain` of the runs")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON (default: as tables)")
	cmd.AddCommand(benchCommand(), compareCommand())
	return cmd
}

// loadFlags are those that say what to do to the service, wherever it is.
func loadFlags(flags *pflag.FlagSet, cfg *load.Config) {
	flags.IntVar(&cfg.Runs, "k", cfg.Runs, "`runs` to drive")
	flags.IntVar(&cfg.Actions, "n", cfg.Actions, "`actions` in each run, besides its root")
	flags.IntVar(&cfg.Concurrency, "concurrency", cfg.Concurrency, "`actions` in hand at the same time, each waiting for its answers")
	flags.IntVar(&cfg.Parallel, "parallel", cfg.Parallel, "`runs` in progress at the same time")
	flags.DurationVar(&cfg.Duration, "duration", cfg.Duration, "`time` box: begin no action after it (0: until all runs have finished)")
	flags.DurationVar(&cfg.Settle, "settle", cfg.Settle, "`time` to wait, after the last answer, for watchers that are behind")
	flags.DurationVar(&cfg.Timeout, "timeout", cfg.Timeout, "`time` that one call may take")
	flags.StringVar(&cfg.Events, "events", cfg.Events, "`way` to report events: internal (RecordActionEvents), proxy (EventsProxyService), both by turns, none")
	flags.IntVar(&cfg.EventBatch, "event-batch", cfg.EventBatch, "`events` in one call")
	flags.IntVar(&cfg.ActionWatchers, "action-watchers", cfg.ActionWatchers, "`actions` with a WatchActionDetails stream of their own")
	flags.StringVar(&cfg.Protocol, "protocol", cfg.Protocol, "`protocol` on the wire: grpc, grpcweb or connect")
}

func runLoad(cmd *cobra.Command, cfg load.Config, asJSON bool) error {
	l, err := load.New(cfg)
	if err != nil {
		return err
	}
	stop := progress.Start(os.Stderr, func(elapsed time.Duration) string {
		p := l.Progress()
		return fmt.Sprintf("%6.1f s  runs %d/%d  actions %d/%d  calls %d  errors %d  watchers behind %d",
			elapsed.Seconds(), p.Runs, p.RunsOf, p.Actions, p.ActionsOf, p.Calls, p.Errors, p.Behind)
	})
	result, err := l.Run(cmd.Context())
	stop()
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	write := report.Text
	if asJSON {
		write = report.JSON
	}
	if err := write(cmd.OutOrStdout(), result); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if result.Interrupted {
		return errInterrupted
	}
	if err := result.Verdict(); err != nil {
		return uncleanError{err}
	}
	return nil
}
