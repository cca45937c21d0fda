// Package report is what the reports of all benchmarks have in common: what was run where, tables, and JSON.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/machine"
	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/server"
	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/trial"
)

// Head opens every report.
type Head struct {
	Benchmark string       `json:"benchmark"`
	Command   string       `json:"command"` // without the password of a DSN
	StartedAt time.Time    `json:"startedAt"`
	Machine   machine.Info `json:"machine"`
	Server    server.Facts `json:"server"`
	// Interrupted: there would have been more.
	Interrupted bool `json:"interrupted"`
}

// Text writes the head in a few lines.
func (h Head) Text(out io.Writer) {
	fmt.Fprintf(out, "%s\n%s\n%s\n", h.Command, h.Machine, h.Server)
	if h.Interrupted {
		fmt.Fprint(out, "interrupted: this is what there is\n")
	}
}

// JSON writes a report as one indented object.
func JSON(out io.Writer, report any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// Table writes rows of cells, indented, each column as wide as it needs; the first is aligned to the left.
func Table(out io.Writer, rows ...[]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len([]rune(row[0])))
	}
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintf(table, "%-*s\t%s\t\n", width, row[0], strings.Join(row[1:], "\t"))
	}
	_ = table.Flush()
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
}

// Count formats a number of things.
func Count(n int64) string { return humanize.Comma(n) }

// Rate formats things per second.
func Rate(perSecond float64) string {
	if perSecond < 100 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return humanize.Comma(int64(perSecond + 0.5))
}

// Ms formats milliseconds, from microseconds to minutes, with about three digits.
func Ms(ms float64) string {
	switch {
	case ms < 1:
		return fmt.Sprintf("%.3f", ms)
	case ms < 100:
		return fmt.Sprintf("%.2f", ms)
	}
	return humanize.Comma(int64(ms + 0.5))
}

// Spread formats a median with its bounds.
func Spread(s measure.Spread, format func(float64) string) string {
	switch s.Runs {
	case 0:
		return "–"
	case 1:
		return format(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", format(s.Median), format(s.Lowest), format(s.Highest))
}

// Ratios writes how modes compare in what is named.
func Ratios(out io.Writer, of string, ratios []trial.Ratio) {
	if len(ratios) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s, within a round: median (lowest–highest)\n", of)
	var rows [][]string
	for _, r := range ratios {
		rows = append(rows, []string{r.Mode + " / " + r.To, Spread(r.Spread, factor)})
	}
	Table(out, rows...)
}

func factor(f float64) string { return fmt.Sprintf("%.2f", f) }
