package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/ceiling"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

func ceilingCommand(c *common) *cobra.Command {
	cfg := ceiling.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "ceiling",
		Short: "A thousand notifications in every form that there is: what a round trip costs",
		Long: `ceiling sends the same number of notifications in different forms, at the round trip that it measures, and hears them all.

Forms: server-loop, a DO block; single, a statement for each; multi-call, SELECT pg_notify(…), pg_notify(…), … as pgnotify sends it; unnest,
SELECT pg_notify(…) FROM unnest(…); pipeline, a statement for each without waiting, in one transaction; pipeline-tx, in a
transaction for each.`,
		Example: `  notifybench ceiling
  notifybench ceiling --rtt 4.1ms
  notifybench ceiling --dsn 'postgres://me@db.example/app'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return err
			}
			return c.measure(cmd, server.Needs{Connections: cfg.Connections(), Procedures: true},
				func(ctx context.Context, srv *server.Server, head report.Head) (result, error) {
					b := ceiling.New(cfg, srv)
					return showing(b.Progress, func() (result, error) { return b.Run(ctx, head) })
				})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&cfg.N, "n", cfg.N, "`notifications` in each run")
	flags.StringSliceVar(&cfg.Modes, "mode", cfg.Modes, "`forms` to compare: server-loop, single, multi-call, unnest, pipeline, pipeline-tx")
	flags.IntVar(&cfg.Rounds, "repeat", cfg.Rounds, "`rounds`, each with every form once in random order")
	return cmd
}
