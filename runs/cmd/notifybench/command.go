package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/machine"
	"github.com/flyteorg/flyte/v2/runs/cmd/internal/progress"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
)

var errInterrupted = errors.New("interrupted")

// voidError is a benchmark that ran, and whose figures say nothing.
type voidError struct{ error }

// common are the flags that every benchmark has.
type common struct {
	server server.Config
	json   bool
}

func command() *cobra.Command {
	var c common
	cmd := &cobra.Command{
		Use:   "notifybench",
		Short: "Measure what LISTEN and NOTIFY cost",
		Long: `notifybench measures LISTEN and NOTIFY on the PostgreSQL that --dsn names or, without it, on an embedded one that starts empty and waits
for the disk as usual (fsync is on). Modes are compared in rounds, each with every mode once in random order.

Exit code: 0 clean; 1 could not run; 2 something was lost, came twice or out of order, so that the figures are void; 130 interrupted
(the report of what there is is printed).`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	flags := cmd.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&c.server.DSN, "dsn", "", "`connection` string of the server, as URL or key=value (default: an embedded server)")
	flags.DurationVar(&c.server.RTT, "rtt", 0, "`time` that a delaying proxy adds to each round trip, e.g. 4ms (0: no proxy)")
	flags.BoolVar(&c.json, "json", false, "print the report as JSON (default: as tables)")
	cmd.AddCommand(fanoutCommand(&c), streamCommand(&c), ceilingCommand(&c))
	return cmd
}

// result is what a benchmark reports.
type result interface {
	Text(io.Writer) error
	// Verdict says why the figures are void, nil when they are not.
	Verdict() error
}

// bench is a benchmark on a server that is there. What it returns is reported even when there is an error, unless it is nil.
type bench func(ctx context.Context, srv *server.Server, head report.Head) (result, error)

// measure opens the server, runs the benchmark and reports.
func (c *common) measure(cmd *cobra.Command, needs server.Needs, run bench) (err error) {
	ctx := cmd.Context()
	if c.server.DSN == "" && cmd.Flags().Changed("dsn") { // a variable that was not set: hardly a wish for the embedded server
		return errors.New("dsn: is empty; leave the flag out to have an embedded server")
	}
	head := report.Head{Benchmark: cmd.Name(), Command: commandLine(os.Args), StartedAt: time.Now(), Machine: machine.Describe()}
	srv, err := server.Open(ctx, c.server, needs)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	head.Server = srv.Facts

	result, runErr := run(ctx, srv, head)
	if result != nil {
		write := result.Text
		if c.json {
			write = func(out io.Writer) error { return report.JSON(out, result) }
		}
		if err := write(cmd.OutOrStdout()); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if runErr != nil {
		return interrupted(ctx, runErr)
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err := result.Verdict(); err != nil {
		return voidError{err}
	}
	return nil
}

// interrupted makes of an error that an interruption has caused the interruption.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return err
}

// showing runs f while line is shown.
func showing[R any](line func(time.Duration) string, f func() (R, error)) (R, error) {
	defer progress.Start(os.Stderr, line)()
	return f()
}

var passwordPair = regexp.MustCompile(`(?i)\b(password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)`)

// withoutPassword returns a connection string, in either form, that may be shown.
func withoutPassword(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		return passwordPair.ReplaceAllString(dsn, "${1}xxxxx")
	}
	if query := u.Query(); query.Has("password") {
		query.Set("password", "xxxxx")
		u.RawQuery = query.Encode()
	}
	return u.Redacted()
}

// commandLine is what was called, so that it can be called again, without the passwords in it.
func commandLine(args []string) string {
	words := []string{"notifybench"}
	for _, arg := range args[1:] {
		if flag, value, ok := strings.Cut(arg, "="); ok && flag == "--dsn" {
			arg = flag + "=" + withoutPassword(value)
		} else if words[len(words)-1] == "--dsn" {
			arg = withoutPassword(arg)
		}
		if strings.ContainsAny(arg, " \t\n'\"&;|<>$*?\\") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
