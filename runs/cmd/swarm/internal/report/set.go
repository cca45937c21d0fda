package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

const none = "–"

// SetJSON writes all that was measured as one indented JSON object.
func SetJSON(out io.Writer, s *trial.Set) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(s)
}

// SetText writes the comparison as tables.
func SetText(out io.Writer, s *trial.Set) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s: %s\n", s.Title, s.Started.Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(b, "  %s\n", s.Command)
	for _, fact := range facts(s) {
		fmt.Fprintf(b, "  %s: %s\n", fact.Name, fact.Value)
	}
	for _, t := range tables(s) {
		fmt.Fprintf(b, "\n%s\n", t.title)
		w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, row := range append([][]string{t.head}, t.rows...) {
			fmt.Fprintf(w, "%s\t\n", strings.Join(row, "\t"))
		}
		_ = w.Flush()
		if t.note != "" {
			fmt.Fprintf(b, "%s\n", t.note)
		}
	}
	fmt.Fprintf(b, "\n%s\n", strings.Join(verdict(s), "\n"))
	_, err := io.WriteString(out, b.String())
	return err
}

// facts are those of the set, and the machine.
func facts(s *trial.Set) []trial.Fact {
	all := slices.Clone(s.Facts)
	if s.Machine.OS != "" {
		all = append(all, trial.Fact{Name: "machine", Value: s.Machine.String()})
	}
	return all
}

// verdict says in a line each whether the figures stand.
func verdict(s *trial.Set) []string {
	var lines []string
	if s.Interrupted {
		lines = append(lines, fmt.Sprintf("interrupted after %d trials", len(s.Trials)))
	}
	for _, t := range s.Void() {
		lines = append(lines, fmt.Sprintf("VOID, and in no figure: round %d, %s: %s", t.Round, t.Side, strings.Join(t.Void, "; ")))
	}
	if len(lines) == 0 {
		checked := "no call failed, every watcher saw the end"
		if len(s.Trials) > 0 && s.Trials[0].Rows != nil {
			checked = "rows stored = rows expected, " + checked
		}
		lines = append(lines, "valid: in every trial "+checked+".")
	}
	for _, side := range s.Sides {
		if side.Unwatched {
			lines = append(lines, "In mode "+side.Name+" nobody is told anything: its watchers are not expected to see the end, and do not count.")
		}
	}
	return lines
}

type table struct {
	title string
	head  []string
	rows  [][]string
	note  string
}

func tables(s *trial.Set) []table {
	return []table{figureTable(s), rpcTable(s), watchTable(s), trialTable(s)}
}

func figureTable(s *trial.Set) table {
	t := table{title: "figures: median, and (least–greatest) of the rounds", head: []string{"", "unit"}}
	for _, side := range s.Sides {
		t.head = append(t.head, side.Name)
	}
	for _, pair := range s.Pairs {
		t.head = append(t.head, pair.Subject+" ÷ "+pair.Reference)
	}
	for _, f := range trial.Figures {
		row := []string{f.Name, f.Unit}
		known := false
		for _, side := range s.Sides {
			spread := s.Spread(side.Name, f)
			known = known || spread.Runs > 0
			row = append(row, withSpread(spread))
		}
		for _, pair := range s.Pairs {
			row = append(row, withSpread(s.Ratio(pair, f)))
		}
		if known {
			t.rows = append(t.rows, row)
		}
	}
	if len(s.Pairs) > 0 {
		t.note = "÷: the ratio within each round, its median and spread."
	}
	return t
}

func rpcTable(s *trial.Set) table {
	t := table{
		title: "RPCs: medians of the rounds",
		head:  []string{"RPC", "side", "calls", "errors", "per s", "mean ms", "p50 ms", "p95 ms", "p99 ms"},
	}
	for _, name := range names(s, func(l *load.Result) (all []string) {
		for _, rpc := range l.RPCs {
			all = append(all, rpc.Name)
		}
		return all
	}) {
		for _, side := range s.Sides {
			of := func(pick func(measure.RPC) float64) string {
				return median(s, side.Name, func(t *trial.Trial) (float64, bool) { return pick(trial.RPCOf(t, name)), true })
			}
			latency := func(pick func(measure.Summary) float64) string {
				return median(s, side.Name, func(t *trial.Trial) (float64, bool) {
					l := trial.RPCOf(t, name).Latency
					return pick(l), l.Count > 0
				})
			}
			t.rows = append(t.rows, []string{
				name, side.Name,
				of(func(r measure.RPC) float64 { return float64(r.Calls) }),
				of(func(r measure.RPC) float64 { return float64(r.Errors) }),
				of(func(r measure.RPC) float64 { return r.Rate }),
				latency(func(l measure.Summary) float64 { return l.Mean }),
				latency(func(l measure.Summary) float64 { return l.P50 }),
				latency(func(l measure.Summary) float64 { return l.P95 }),
				latency(func(l measure.Summary) float64 { return l.P99 }),
			})
		}
	}
	return t
}

func watchTable(s *trial.Set) table {
	t := table{
		title: "watch lag: from the answered update to the terminal phase on the stream; medians of the rounds",
		head:  []string{"stream", "side", "watchers", "never saw it", "p50 ms", "p95 ms", "p99 ms", "max ms"},
	}
	for _, stream := range names(s, func(l *load.Result) (all []string) {
		for _, w := range l.Watches {
			all = append(all, w.Stream)
		}
		return all
	}) {
		for _, side := range s.Sides {
			if side.Unwatched {
				continue
			}
			of := func(pick func(load.WatchResult) int64) string {
				return median(s, side.Name, func(t *trial.Trial) (float64, bool) { return float64(pick(trial.WatchOf(t, stream))), true })
			}
			lag := func(pick func(measure.Summary) float64) string {
				return median(s, side.Name, func(t *trial.Trial) (float64, bool) {
					l := trial.WatchOf(t, stream).Lag
					return pick(l), l.Count > 0
				})
			}
			t.rows = append(t.rows, []string{
				stream, side.Name,
				of(func(w load.WatchResult) int64 { return w.Watchers }),
				of(func(w load.WatchResult) int64 { return w.Never }),
				lag(func(l measure.Summary) float64 { return l.P50 }),
				lag(func(l measure.Summary) float64 { return l.P95 }),
				lag(func(l measure.Summary) float64 { return l.P99 }),
				lag(func(l measure.Summary) float64 { return l.Max }),
			})
		}
	}
	return t
}

// trialTable has every trial, in the order in which they ran.
func trialTable(s *trial.Set) table {
	t := table{
		title: "all trials, in the order in which they ran",
		head:  []string{"", "round", "side", "seconds", "updates/s", "p95 ms", "notifications/s", "watchers", "never saw it", "rows", "load average before", ""},
	}
	for i, one := range s.Trials {
		count, watchers := one.Load.Never()
		never, notifications, rows, void := strconv.FormatInt(count, 10), none, none, ""
		if unwatched(s, one.Side) {
			never = none
		}
		if rate, ok := trial.Notifications.Of(one); ok {
			notifications = figure(rate, true)
		}
		if one.Rows != nil {
			rows = fmt.Sprintf("%d/%d", total(one.Rows.Stored), total(one.Rows.Expected))
		}
		if len(one.Void) > 0 {
			void = "void"
		}
		update := trial.RPCOf(one, trial.Updates)
		busy := none
		if one.LoadAverage != "" {
			busy = one.LoadAverage
		}
		t.rows = append(t.rows, []string{
			strconv.Itoa(i + 1), strconv.Itoa(one.Round), one.Side, figure(one.Load.Seconds, true), figure(update.Rate, true),
			figure(update.Latency.P95, true), notifications, strconv.FormatInt(watchers, 10), never, rows, busy, void,
		})
	}
	return t
}

func total(w load.Written) int64 { return w.Actions + w.Events }

// names of something in the order of first use.
func names(s *trial.Set, of func(*load.Result) []string) []string {
	var all []string
	for _, t := range s.Trials {
		for _, name := range of(t.Load) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func median(s *trial.Set, side string, of func(*trial.Trial) (float64, bool)) string {
	spread := s.Spread(side, trial.Figure{Of: of})
	return figure(spread.Median, spread.Runs > 0)
}

func withSpread(s measure.Spread) string {
	text := figure(s.Median, s.Runs > 0)
	if s.Runs > 1 {
		text += fmt.Sprintf(" (%s–%s)", figure(s.Lowest, true), figure(s.Highest, true))
	}
	return text
}

// figure writes a number with three digits or all before the point.
func figure(value float64, known bool) string {
	digits := 0
	switch {
	case !known:
		return none
	case value == float64(int64(value)):
	case value < 0.1 && value > -0.1:
		digits = 4
	case value < 10 && value > -10:
		digits = 2
	case value < 100 && value > -100:
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}
