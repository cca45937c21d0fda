package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/checkout"
	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/series"
)

// branch is what --apply creates.
const branch = "perf/notify-pump"

// options say what to do with which checkout.
type options struct {
	flyte string
	out   string
	apply bool
	check bool
	from  string

	withoutAhead bool
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "flytepatch --flyte DIR (--check | --out PATCHES | --apply)",
		Short: "Make this repository's change in a checkout of flyteorg/flyte, as a series of signed-off commits",
		Long: `Makes the change of this repository in a checkout of flyteorg/flyte, as a series of signed-off commits.

The commits are made, and compiled with their tests, in a temporary worktree. DIR needs a clean tree, an identity in its git config
(user.name, user.email), and its modules within the go command's reach. Nothing in it changes but by --apply, and then only by
the new branch ` + branch + `. An interrupt is safe at any time.

Exit codes: 0 done, 1 refused, 3 already applied, 130 interrupted. Nothing has been changed unless it is 0.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.flyte, "flyte", "", "the checkout of flyteorg/flyte: its top directory")
	flags.BoolVar(&o.check, "check", false, "only say whether the series would apply")
	flags.StringVar(&o.out, "out", "", "write patch files for git am, and a cover letter, to this directory")
	flags.BoolVar(&o.apply, "apply", false, "put the commits on the new branch "+branch+" of the checkout")
	flags.StringVar(&o.from, "from", ".", "this repository, or a directory inside of it")
	flags.BoolVar(&o.withoutAhead, "without-ahead", false, "leave out the last commit, watches that read in common and ahead: the others stand without it")
	_ = cmd.MarkFlagRequired("flyte") // fails for a flag that does not exist
	cmd.MarkFlagsOneRequired("check", "out", "apply")
	cmd.MarkFlagsMutuallyExclusive("check", "out")
	cmd.MarkFlagsMutuallyExclusive("check", "apply")
	return cmd
}

// run does it. With an error nothing has been changed.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	source, err := series.FindSource(o.from)
	if err != nil {
		return err
	}
	target, err := checkout.Open(ctx, o.flyte)
	if err != nil {
		return err
	}
	if o.apply {
		err := target.CheckBranch(ctx, branch)
		if errors.Is(err, checkout.ErrBranchExists) {
			return fmt.Errorf("%w: %w", series.ErrApplied, err)
		}
		if err != nil {
			return err
		}
	}
	if o.out != "" {
		if err := checkout.CheckOut(o.out); err != nil {
			return err
		}
	}

	worktree, err := target.Worktree(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worktree.Close()) }()
	progress := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	if err := series.Build(ctx, source, worktree, !o.withoutAhead, progress); err != nil {
		return err
	}
	if o.check {
		progress("the series applies to %s", target.Head())
		return nil
	}
	return deliver(ctx, o, source, worktree, progress)
}

// deliver hands over what was built. The patches come first: they can be taken back when the branch can't be created.
func deliver(ctx context.Context, o options, source series.Source, worktree *checkout.Worktree, progress func(string, ...any)) error {
	var written []string
	if o.out != "" {
		cover, err := series.Cover(source)
		if err != nil {
			return err
		}
		if written, err = worktree.Patches(ctx, o.out, cover); err != nil {
			return err
		}
	}
	if o.apply {
		if err := worktree.CreateBranch(ctx, branch); err != nil {
			return errors.Join(err, checkout.RemovePatches(o.out, written))
		}
		progress("created branch %s", branch)
	}
	for _, name := range written {
		progress("wrote %s/%s", o.out, name)
	}
	return nil
}
