// Package report shows what a load measured: as a table for people, as JSON for programs.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
)

// Text writes the result as tables.
func Text(out io.Writer, r *load.Result) error {
	b := &strings.Builder{}
	c := r.Config
	fmt.Fprintf(b, "%s: %d runs × %d actions, %d at a time\n", c.Endpoint, c.Runs, c.Actions, c.Concurrency)
	fmt.Fprintf(b, "%s in %.1f s: runs finished %d/%d, actions finished %d/%d\n\n",
		how(r), r.Seconds, r.RunsFinished, c.Runs, r.ActionsFinished, c.Runs*c.Actions)

	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "RPC\tcalls\terrors\tper s\tmean ms\tp50 ms\tp95 ms\tp99 ms\tmax ms\t\n")
	for _, rpc := range r.RPCs {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\t%s\t\n", rpc.Name, rpc.Calls, rpc.Errors, rpc.Rate, latency(rpc.Latency, true))
	}
	_ = table.Flush()

	if len(r.Watches) > 0 {
		fmt.Fprint(b, "\nlag from the answered update to the terminal phase on the stream\n")
		table = tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(table, "stream\topened\twatchers\tnever saw it\tp50 ms\tp95 ms\tp99 ms\tmax ms\t\n")
		for _, w := range r.Watches {
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t\n", w.Stream, w.Streams, w.Watchers, w.Never, latency(w.Lag, false))
		}
		_ = table.Flush()
		if r.Settled {
			fmt.Fprintf(b, "settled %.3f s after the last answer\n", r.SettleSeconds)
		} else {
			never, of := r.Never()
			fmt.Fprintf(b, "not settled: %d of %d watchers had not seen it %.1f s after the last answer\n", never, of, r.SettleSeconds)
		}
	}
	for i, f := range r.Failures {
		if i == 0 {
			fmt.Fprint(b, "\nfailures\n")
		}
		fmt.Fprintf(b, "  %d × %s: %s, first: %s\n", f.Count, f.RPC, f.Code, f.Sample)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func how(r *load.Result) string {
	switch {
	case r.Interrupted:
		return "interrupted"
	case r.TimeBoxed:
		return "time box over"
	}
	return "done"
}

func latency(s measure.Summary, mean bool) string {
	columns := []float64{s.P50, s.P95, s.P99, s.Max}
	if mean {
		columns = append([]float64{s.Mean}, columns...)
	}
	cells := make([]string, len(columns))
	for i, ms := range columns {
		cells[i] = "–"
		if s.Count > 0 {
			cells[i] = fmt.Sprintf("%.1f", ms)
		}
	}
	return strings.Join(cells, "\t")
}

// JSON writes the result as one indented JSON object.
func JSON(out io.Writer, r *load.Result) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
