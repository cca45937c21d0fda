package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/progress"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/bench"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

func benchCommand() *cobra.Command {
	cfg := bench.DefaultConfig()
	var out output
	var from string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare the service's notify modes under the same load, each on a service and a database of its own",
		Long: `bench runs trials of each notify mode in random order. A trial has a fresh PostgreSQL, a service process, and a proxy between the two
that delays and counts; then it compares the rows stored with the answers given, and the watchers that saw the end with those that had to.

Where --k or --n is given and --duration is not, a trial lasts until all runs have finished: --k 25 --n 2000 is the size of
flyteorg/benchmark's swarm.py.

Exit code: 0 all figures stand; 1 could not run; 2 a trial is void, and the report says why; 130 interrupted (the report is printed).`,
		Example: `  swarm bench --report bench.html
  swarm bench --k 25 --n 2000 --repeat 1 --save bench.json
  swarm bench --from bench.json --svg bench.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			liftTimeBox(cmd.Flags(), &cfg)
			var set *trial.Set
			var err error
			if from != "" {
				set, err = readSet(from)
			} else {
				set, err = runBench(cmd.Context(), cfg, commandLine(cmd))
			}
			if err != nil {
				return err
			}
			return conclude(cmd, out, set)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	benchFlags(flags, &cfg)
	out.flags(flags)
	flags.StringVar(&from, "from", "", "show what --save left in this `file`; measure nothing")
	return cmd
}

func benchFlags(flags *pflag.FlagSet, cfg *bench.Config) {
	flags.StringSliceVar(&cfg.Modes, "modes", cfg.Modes, "notify `modes` to compare")
	flags.IntVar(&cfg.Repeat, "repeat", cfg.Repeat, "`rounds`, each with every mode once")
	flags.DurationVar(&cfg.RTT, "rtt", cfg.RTT, "`time` that a round trip between service and database takes")
	flags.DurationVar(&cfg.Jitter, "jitter", cfg.Jitter, "`time` that it may take longer")
	flags.DurationVar(&cfg.CommitLatency, "commit-latency", cfg.CommitLatency, "`time` that a commit takes longer, by a synchronous pg_receivewal (which has to be installed)")
	flags.StringVar(&cfg.Service, "service", "", "`program` of the service (default: built from this source)")
	loadFlags(flags, &cfg.Load)
}

// liftTimeBox lets a load whose size was given run to its end.
func liftTimeBox(flags *pflag.FlagSet, cfg *bench.Config) {
	if sized := flags.Changed("k") || flags.Changed("n"); sized && !flags.Changed("duration") {
		cfg.Load.Duration = 0
	}
}

func runBench(ctx context.Context, cfg bench.Config, command string) (*trial.Set, error) {
	b, err := bench.New(cfg, command)
	if err != nil {
		return nil, err
	}
	stop := progress.Start(os.Stderr, func(elapsed time.Duration) string {
		return fmt.Sprintf("%6.1f s  %s", elapsed.Seconds(), b.Progress())
	})
	set, err := b.Run(ctx)
	stop()
	if errors.Is(err, context.Canceled) {
		return nil, errInterrupted
	}
	return set, err
}

// conclude writes the report and says whether the figures stand.
func conclude(cmd *cobra.Command, out output, set *trial.Set) error {
	if err := out.write(cmd.OutOrStdout(), set); err != nil {
		return err
	}
	void := set.Void()
	switch {
	case set.Interrupted:
		return errInterrupted
	case len(void) > 0:
		return uncleanError{fmt.Errorf("%d of %d trials are void, the first (round %d, %s) because: %s",
			len(void), len(set.Trials), void[0].Round, void[0].Side, void[0].Void[0])}
	}
	return nil
}

// commandLine is how the command was called, so that it can be called again.
func commandLine(cmd *cobra.Command) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := strings.Trim(f.Value.String(), "[]") // of a list
		if strings.ContainsAny(value, " '\"$&|;<>()*?#~`\\") {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		words = append(words, "--"+f.Name+"="+value)
	})
	return strings.Join(append(words, cmd.Flags().Args()...), " ")
}
