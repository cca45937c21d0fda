package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/fanout"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

func fanoutCommand(c *common) *cobra.Command {
	cfg := fanout.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "fanout",
		Short: "Notifiers send as fast as they can, listeners receive: rates, latencies, and whether all of it arrived",
		Long: `fanout has notifiers send distinct payloads as fast as they can, on all channels by turns, and checks that every listener of a channel
hears every payload of it exactly once, in the order in which its notifier sent them.

Modes: single, a statement for each payload on a connection for each notifier; batched, all notifiers through one pgnotify pump.`,
		Example: `  notifybench fanout
  notifybench fanout --rtt 4ms --listeners 50 --notifiers 20 --channels 10 --mode batched --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return err
			}
			return c.measure(cmd, server.Needs{Connections: cfg.Connections()},
				func(ctx context.Context, srv *server.Server, head report.Head) (result, error) {
					b := fanout.New(cfg, srv)
					return showing(b.Progress, func() (result, error) { return b.Run(ctx, head) })
				})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&cfg.Listeners, "listeners", cfg.Listeners, "`connections` that listen, spread over the channels")
	flags.IntVar(&cfg.Notifiers, "notifiers", cfg.Notifiers, "`senders`, each on all channels by turns")
	flags.IntVar(&cfg.Channels, "channels", cfg.Channels, "`channels`, at most one per listener")
	flags.DurationVar(&cfg.Duration, "duration", cfg.Duration, "`time` to send for, in each run")
	flags.StringSliceVar(&cfg.Modes, "mode", cfg.Modes, "`modes` to compare: single, batched")
	flags.IntVar(&cfg.Rounds, "repeat", cfg.Rounds, "`rounds`, each with every mode once in random order")
	flags.IntVar(&cfg.Pending, "pending", cfg.Pending, "`payloads` not yet confirmed that the notifiers may have together in mode batched")
	flags.DurationVar(&cfg.Settle, "settle", cfg.Settle, "longest `time`, after the sending, until the listeners have heard all")
	return cmd
}
