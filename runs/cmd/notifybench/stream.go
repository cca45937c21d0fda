package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/stream"
)

func streamCommand(c *common) *cobra.Command {
	cfg := stream.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "stream",
		Short: "Rows are appended to streams, readers are woken to read on: writes per second and latency by way of waking",
		Long: `stream has writers append rows to streams, one transaction for each, and readers read on when a notification tells them to. It creates a
schema of its own and drops it at the end. The figures of a mode count only if every row was read by every reader of its stream.

Modes: intx, NOTIFY inside the writing transaction; trigger, by a trigger on the table; buffered, after the commit through a pgnotify pump;
none, readers poll. A commit with a NOTIFY in it holds a lock of the whole cluster until the disk has answered: the report says which
fsync and synchronous_commit the server has.`,
		Example: `  notifybench stream
  notifybench stream --rtt 4ms --mode intx,buffered --writers 100 --streams 100 --rate 500`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return err
			}
			return c.measure(cmd, server.Needs{Connections: cfg.Connections(), Tables: true, Procedures: slices.Contains(cfg.Modes, stream.Trigger)},
				func(ctx context.Context, srv *server.Server, head report.Head) (result, error) {
					b := stream.New(cfg, srv)
					return showing(b.Progress, func() (result, error) { return b.Run(ctx, head) })
				})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&cfg.Writers, "writers", cfg.Writers, "`connections` that write")
	flags.IntVar(&cfg.Streams, "streams", cfg.Streams, "`streams`, each of one writer; at least one per writer")
	flags.IntVar(&cfg.Readers, "readers", cfg.Readers, "`connections` that read; fewer than streams share them out, more than streams read the same ones")
	flags.DurationVar(&cfg.Duration, "duration", cfg.Duration, "`time` to write for, in each run")
	flags.Float64Var(&cfg.Rate, "rate", cfg.Rate, "`writes` per second of all writers together (0: as many as they can)")
	flags.StringSliceVar(&cfg.Modes, "mode", cfg.Modes, "`modes` to compare: intx, trigger, buffered, none")
	flags.IntVar(&cfg.Rounds, "repeat", cfg.Rounds, "`rounds`, each with every mode once in random order")
	flags.DurationVar(&cfg.Poll, "poll", cfg.Poll, "`interval` at which readers look in mode none")
	flags.DurationVar(&cfg.Fallback, "fallback", cfg.Fallback, "`interval` at which readers look in the other modes, for what no notification told")
	flags.DurationVar(&cfg.Flush, "flush", cfg.Flush, "shortest `time` from one statement of the pump to the next in mode buffered (0: it sends as soon as it can)")
	flags.DurationVar(&cfg.Settle, "settle", cfg.Settle, "longest `time`, after the writing, until the readers have read all")
	return cmd
}
