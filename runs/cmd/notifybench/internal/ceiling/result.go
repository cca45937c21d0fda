package ceiling

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
	Config Config `json:"config"`
	Runs   []Run  `json:"runs"`
	Forms  []Form `json:"forms"`
}

// Form sums up the runs of one form that count.
type Form struct {
	Mode         string `json:"mode"`
	RoundTrips   int    `json:"roundTrips"`
	Transactions int    `json:"transactions"`
	// SentMs until the last confirmation, HeardMs until the last receipt, for all notifications of a run.
	SentMs    measure.Spread `json:"sentMs"`
	HeardMs   measure.Spread `json:"heardMs"`
	PerSecond measure.Spread `json:"perSecond"`
	// Times that the form is as fast as single statements, within a round.
	Faster measure.Spread `json:"timesSingle"`
}

// statementWidth is how many calls the Sender puts into one statement at most.
const statementWidth = 1000

func (c Config) roundTrips(mode string) int {
	switch mode {
	case Single:
		return c.N
	case MultiCall:
		return (c.N + statementWidth - 1) / statementWidth
	}
	return 1
}

func (c Config) transactions(mode string) int {
	if mode == PipelineTxs {
		return c.N
	}
	return c.roundTrips(mode)
}

func (r *Result) figures(value func(Run) float64) []trial.Figure {
	var figures []trial.Figure
	for _, run := range r.Runs {
		if run.Err(r.Config.N) == nil {
			figures = append(figures, trial.Figure{Trial: trial.Trial{Round: run.Round, Mode: run.Mode}, Value: value(run)})
		}
	}
	return figures
}

func (r *Result) complete() {
	perSecond := r.figures(func(run Run) float64 { return float64(r.Config.N) / run.SentMs * 1000 })
	faster := map[string]measure.Spread{}
	for _, ratio := range trial.Ratios(perSecond, r.Config.Modes, []string{Single}) {
		faster[ratio.Mode] = ratio.Spread
	}
	for _, mode := range r.Config.Modes {
		r.Forms = append(r.Forms, Form{
			Mode: mode, RoundTrips: r.Config.roundTrips(mode), Transactions: r.Config.transactions(mode),
			SentMs:    trial.OfMode(r.figures(func(run Run) float64 { return run.SentMs }), mode),
			HeardMs:   trial.OfMode(r.figures(func(run Run) float64 { return run.HeardMs }), mode),
			PerSecond: trial.OfMode(perSecond, mode),
			Faster:    faster[mode],
		})
	}
}

// Verdict is nil when there were runs and in every one each notification was heard once.
func (r *Result) Verdict() error {
	if len(r.Runs) == 0 {
		return errors.New("no run was finished")
	}
	var wrong []string
	for _, run := range r.Runs {
		if err := run.Err(r.Config.N); err != nil {
			wrong = append(wrong, fmt.Sprintf("round %d, %s: %v", run.Round, run.Mode, err))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not every notification was heard once: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// Text writes the report for people.
func (r *Result) Text(out io.Writer) error {
	b := &strings.Builder{}
	r.Head.Text(b)
	n := r.Config.N
	fmt.Fprintf(b, "\n%s notifications, in each form %d times: median (lowest–highest)\n", report.Count(int64(n)), r.Config.Rounds)
	rows := [][]string{{"form", "round trips", "transactions", "sent in ms", "all heard after ms", "µs each", "per second", "× single"}}
	for _, f := range r.Forms {
		each := "–"
		if f.SentMs.Runs > 0 {
			each = fmt.Sprintf("%.1f", f.SentMs.Median*1000/float64(n))
		}
		rows = append(rows, []string{descriptions[f.Mode], report.Count(int64(f.RoundTrips)), report.Count(int64(f.Transactions)),
			report.Spread(f.SentMs, report.Ms), report.Spread(f.HeardMs, report.Ms), each, report.Rate(f.PerSecond.Median),
			report.Spread(f.Faster, report.Rate)})
	}
	report.Table(b, rows...)
	r.moral(b)
	if err := r.Verdict(); err != nil {
		fmt.Fprintf(b, "\nVOID: %v\n", err)
	} else {
		fmt.Fprint(b, "\nevery notification was heard once\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// moral says what a round trip costs, in notifications: the loop in the server takes one, and the rest of its time is theirs.
func (r *Result) moral(out io.Writer) {
	for _, f := range r.Forms {
		each := (f.SentMs.Median - r.Server.RTT) / float64(r.Config.N)
		if f.Mode == ServerLoop && f.SentMs.Runs > 0 && each > 0 {
			fmt.Fprintf(out, "\nA notification takes the server %.1f µs, a round trip takes %.3g ms: as long as %s notifications.\n",
				each*1000, r.Server.RTT, report.Rate(r.Server.RTT/each))
		}
	}
}
