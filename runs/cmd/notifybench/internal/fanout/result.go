package fanout

import (
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
	Ratios []trial.Ratio `json:"sentPerSecondRatios"`
}

// Mode sums up the runs of one mode that count: a run that lost something, or had it twice, says nothing about speed.
type Mode struct {
	Mode              string         `json:"mode"`
	SentPerSecond     measure.Spread `json:"sentPerSecond"`
	ReceivedPerSecond measure.Spread `json:"receivedPerSecond"`
	P50               measure.Spread `json:"p50Ms"`
	P99               measure.Spread `json:"p99Ms"`
	PerStatement      measure.Spread `json:"payloadsPerStatement"`
}

func (r *Result) figures(value func(Run) float64) []trial.Figure {
	var figures []trial.Figure
	for _, run := range r.Runs {
		if run.Verdict.Err() == nil {
			figures = append(figures, trial.Figure{Trial: trial.Trial{Round: run.Round, Mode: run.Mode}, Value: value(run)})
		}
	}
	return figures
}

func sentPerSecond(run Run) float64 { return run.SentPerSecond }

func (r *Result) complete() *Result {
	for _, mode := range r.Config.Modes {
		of := func(value func(Run) float64) measure.Spread { return trial.OfMode(r.figures(value), mode) }
		r.Modes = append(r.Modes, Mode{
			Mode:              mode,
			SentPerSecond:     of(sentPerSecond),
			ReceivedPerSecond: of(func(run Run) float64 { return run.ReceivedPerSecond }),
			P50:               of(func(run Run) float64 { return run.Latency.P50 }),
			P99:               of(func(run Run) float64 { return run.Latency.P99 }),
			PerStatement:      of(func(run Run) float64 { return float64(run.Sent) / float64(run.Statements) }),
		})
	}
	r.Ratios = trial.Ratios(r.figures(sentPerSecond), r.Config.Modes, []string{Single})
	return r
}

// Verdict is nil when there were runs and every one was correct.
func (r *Result) Verdict() error {
	var wrong []string
	for _, run := range r.Runs {
		if err := run.Verdict.Err(); err != nil {
			wrong = append(wrong, fmt.Sprintf("round %d, %s: %v", run.Round, run.Mode, err))
		}
	}
	switch {
	case len(wrong) > 0:
		return fmt.Errorf("not every listener heard every payload once and in order: %s", strings.Join(wrong, "; "))
	case len(r.Runs) == 0:
		return fmt.Errorf("no run was finished")
	}
	return nil
}

// Text writes the report for people.
func (r *Result) Text(out io.Writer) error {
	b := &strings.Builder{}
	r.Head.Text(b)
	c := r.Config
	fmt.Fprintf(b, "\n%d listeners, %d notifiers, %d channels, sending for %s; latency from just before the send to the receipt, ms\n",
		c.Listeners, c.Notifiers, c.Channels, c.Duration)
	rows := [][]string{{"run", "round", "sent", "sent/s", "statements", "received", "received/s", "p50", "p95", "p99", "max", "verdict"}}
	for _, run := range r.Runs {
		verdict := "correct"
		if run.Verdict.Err() != nil {
			verdict = "WRONG"
		}
		rows = append(rows, []string{run.Mode, fmt.Sprint(run.Round), report.Count(run.Sent), report.Rate(run.SentPerSecond), report.Count(run.Statements),
			report.Count(run.Verdict.Received), report.Rate(run.ReceivedPerSecond),
			report.Ms(run.Latency.P50), report.Ms(run.Latency.P95), report.Ms(run.Latency.P99), report.Ms(run.Latency.Max), verdict})
	}
	report.Table(b, rows...)

	fmt.Fprint(b, "\nmedian of the runs (lowest–highest)\n")
	rows = [][]string{{"mode", "runs", "sent/s", "received/s", "payloads/statement", "p50 ms", "p99 ms"}}
	for _, m := range r.Modes {
		rows = append(rows, []string{m.Mode, fmt.Sprint(m.SentPerSecond.Runs), report.Spread(m.SentPerSecond, report.Rate),
			report.Spread(m.ReceivedPerSecond, report.Rate), report.Spread(m.PerStatement, report.Rate),
			report.Spread(m.P50, report.Ms), report.Spread(m.P99, report.Ms)})
	}
	report.Table(b, rows...)
	report.Ratios(b, "sent/s", r.Ratios)

	for _, mode := range c.Modes {
		if lines := r.histogramOf(mode); lines != nil {
			fmt.Fprintf(b, "\n%s, all runs\n", mode)
			histogram(b, lines)
		}
	}
	if err := r.Verdict(); err != nil {
		fmt.Fprintf(b, "\nWRONG: %v\n", err)
	} else {
		fmt.Fprint(b, "\ncorrect: every listener heard every payload of its channel once, in order per notifier\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// histogramOf adds up the histograms of a mode's runs.
func (r *Result) histogramOf(mode string) []Decade {
	var sum []Decade
	var total int64
	for _, run := range r.Runs {
		if run.Mode != mode {
			continue
		}
		if sum == nil {
			sum = make([]Decade, len(run.Histogram))
		}
		for i, line := range run.Histogram {
			if n := sum[i].Count + line.Count; n > 0 {
				sum[i].Average = (sum[i].Average*float64(sum[i].Count) + line.Average*float64(line.Count)) / float64(n)
			}
			sum[i].Range = line.Range
			sum[i].Count += line.Count
			total += line.Count
		}
	}
	for i := range sum {
		if total > 0 {
			sum[i].Share = float64(sum[i].Count) / float64(total)
		}
	}
	return sum
}
