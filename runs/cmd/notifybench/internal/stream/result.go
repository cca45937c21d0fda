package stream

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/trial"
)

// Result is the report: all runs in the order in which they were made, and what follows from those that count.
type Result struct {
	report.Head
	Config Config        `json:"config"`
	Runs   []Run         `json:"runs"`
	Modes  []Mode        `json:"modes"`
	Ratios []trial.Ratio `json:"writesPerSecondRatios"`
}

// Mode sums up the runs of one mode that count.
type Mode struct {
	Mode            string         `json:"mode"`
	WritesPerSecond measure.Spread `json:"writesPerSecond"`
	WriteP99        measure.Spread `json:"writeP99Ms"`
	P50             measure.Spread `json:"p50Ms"`
	P95             measure.Spread `json:"p95Ms"`
	P99             measure.Spread `json:"p99Ms"`
}

func (r *Result) figures(value func(Run) float64) []trial.Figure {
	var figures []trial.Figure
	for _, run := range r.Runs {
		if run.Err() == nil {
			figures = append(figures, trial.Figure{Trial: trial.Trial{Round: run.Round, Mode: run.Mode}, Value: value(run)})
		}
	}
	return figures
}

func writesPerSecond(run Run) float64 { return run.WritesPerSecond }

func (r *Result) complete() {
	for _, mode := range r.Config.Modes {
		of := func(value func(Run) float64) measure.Spread { return trial.OfMode(r.figures(value), mode) }
		r.Modes = append(r.Modes, Mode{
			Mode:            mode,
			WritesPerSecond: of(writesPerSecond),
			WriteP99:        of(func(run Run) float64 { return run.WriteLatency.P99 }),
			P50:             of(func(run Run) float64 { return run.Latency.P50 }),
			P95:             of(func(run Run) float64 { return run.Latency.P95 }),
			P99:             of(func(run Run) float64 { return run.Latency.P99 }),
		})
	}
	r.Ratios = trial.Ratios(r.figures(writesPerSecond), r.Config.Modes, []string{InTx, None})
}

// Verdict is nil when there were runs and every one covered everything.
func (r *Result) Verdict() error {
	if len(r.Runs) == 0 {
		return errors.New("no run was finished")
	}
	var wrong []string
	for _, run := range r.Runs {
		if err := run.Err(); err != nil {
			wrong = append(wrong, fmt.Sprintf("round %d, %s: %s", run.Round, run.Mode, strings.ReplaceAll(err.Error(), "\n", ", ")))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not every row was read by every reader: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// Text writes the report for people.
func (r *Result) Text(out io.Writer) error {
	b := &strings.Builder{}
	r.Head.Text(b)
	c := r.Config
	rate := "as fast as they can"
	if c.Rate > 0 {
		rate = report.Rate(c.Rate) + "/s"
	}
	fmt.Fprintf(b, "\n%d writers on %d streams for %s, %s; %d readers, %s polls in mode none, %s fallback in the others\n",
		c.Writers, c.Streams, c.Duration, rate, c.Readers, c.Poll, c.Fallback)
	if c.Flush > 0 {
		fmt.Fprintf(b, "buffered: the pump sends at most once in %s\n", c.Flush)
	}
	fmt.Fprint(b, "write: what a writer waits for its commit; end to end: from the INSERT to the row in a reader's hands, ms\n")
	rows := [][]string{{"run", "round", "rows", "writes/s", "write p50", "p99", "end to end p50", "p95", "p99", "max", "coverage", "notified", "reads", "polls", "rows by poll"}}
	for _, run := range r.Runs {
		coverage := fmt.Sprintf("%.4f", run.Coverage)
		if run.Err() != nil {
			coverage += " VOID"
		}
		rows = append(rows, []string{run.Mode, fmt.Sprint(run.Round), report.Count(run.Written), report.Rate(run.WritesPerSecond),
			report.Ms(run.WriteLatency.P50), report.Ms(run.WriteLatency.P99),
			report.Ms(run.Latency.P50), report.Ms(run.Latency.P95), report.Ms(run.Latency.P99), report.Ms(run.Latency.Max),
			coverage, report.Count(run.Notifications), report.Count(run.Reads), report.Count(run.Polls), report.Count(run.PolledRows)})
	}
	report.Table(b, rows...)

	fmt.Fprint(b, "\nmedian of the runs (lowest–highest)\n")
	rows = [][]string{{"mode", "runs", "writes/s", "write p99 ms", "end to end p50 ms", "p95 ms", "p99 ms"}}
	for _, m := range r.Modes {
		rows = append(rows, []string{m.Mode, fmt.Sprint(m.WritesPerSecond.Runs), report.Spread(m.WritesPerSecond, report.Rate), report.Spread(m.WriteP99, report.Ms),
			report.Spread(m.P50, report.Ms), report.Spread(m.P95, report.Ms), report.Spread(m.P99, report.Ms)})
	}
	report.Table(b, rows...)
	report.Ratios(b, "writes/s", r.Ratios)
	if err := r.Verdict(); err != nil {
		fmt.Fprintf(b, "\nVOID: %v\n", err)
	} else {
		fmt.Fprint(b, "\ncoverage 1: every row was read, once, by every reader of its stream\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
