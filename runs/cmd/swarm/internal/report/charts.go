package report

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot/plotter"

	"github.com/flyteorg/flyte/v2/runs/cmd/internal/measure"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/chart"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// Sizes in points.
const (
	pictureWidth = 900
	chartWidth   = 900
	chartHeight  = 330
	columns      = 3

	lowestLatency = 0.1 // ms; of interest, and drawn

	// rateWindow is over how many samples a rate is taken: single ones are too restless to be read.
	rateWindow = 4
)

// panelOf is a figure as a group of bars.
type panelOf struct {
	trial.Figure
	title, axis string
}

var pictured = []panelOf{
	{trial.UpdateRate, "Status updates", "answered per second, more is better"},
	{trial.UpdateP95, "Time for an answer", "p95 of UpdateActionStatus, ms, less is better"},
	{trial.LagP99, "Until watchers see the end", "p99 after the answer, ms, less is better"},
}

var further = []panelOf{
	{trial.Notifications, "Notifications", "delivered per second"},
	{trial.RoundTrips, "The pump's round trips", "per second, less is better"},
	{trial.CPUPerCall, "CPU of service and database", "ms per call, less is better"},
}

// Picture writes the picture of before and after as an SVG file.
func Picture(out io.Writer, s *trial.Set) error {
	_, err := io.WriteString(out, bars(s, pictured, caption(s)).SVG())
	return err
}

// caption says in one line what the bars are of.
func caption(s *trial.Set) string {
	var where []string
	for _, fact := range s.Facts {
		if fact.Name == "service to database" {
			where = append(where, "database at "+fact.Value)
		}
	}
	if len(s.Trials) > 0 {
		where = append(where, fmt.Sprintf("%d actions at a time", s.Trials[0].Load.Config.Concurrency))
	}
	if rounds := len(s.Trials) / max(len(s.Sides), 1); rounds > 1 {
		where = append(where, fmt.Sprintf("median and range of %d rounds", rounds))
	}
	if s.Machine.CPU != "" {
		where = append(where, fmt.Sprintf("%d × %s", s.Machine.CPUs, s.Machine.CPU))
	}
	return joined(where)
}

func joined(parts []string) string {
	text := ""
	for i, part := range parts {
		if i > 0 {
			text += "  ·  "
		}
		text += part
	}
	return text
}

func bars(s *trial.Set, of []panelOf, caption string) chart.Chart {
	var panels []chart.Panel
	for _, one := range of {
		panel := chart.Panel{Title: one.title, Axis: one.axis}
		known := false
		for i, side := range s.Sides {
			spread := s.Spread(side.Name, one.Figure)
			bar := chart.Bar{
				Name: side.Name, Color: colorOf(side.Name, i), Value: spread.Median, Low: spread.Lowest, High: spread.Highest,
				Text: figure(spread.Median, true), Missing: spread.Runs == 0,
			}
			if bar.Missing {
				bar.Text = "no valid figure"
				if side.Unwatched {
					bar.Text = "never: nobody is told"
				}
			}
			known = known || !bar.Missing
			panel.Bars = append(panel.Bars, bar)
		}
		if known {
			panels = append(panels, panel)
		}
	}
	return chart.Bars(pictureWidth, columns, caption, panels)
}

// colorOf gives the modes the same colours in every chart, whichever of them are there.
func colorOf(side string, i int) color.RGBA {
	modes := []string{string(impl.NotifyModeSerial), string(impl.NotifyModeBatched), string(impl.NotifyModeOff)}
	if at := slices.Index(modes, side); at >= 0 {
		i = at
	}
	return chart.Palette[i%len(chart.Palette)]
}

// charts are those of the page.
func charts(s *trial.Set) []chart.Chart {
	all := []chart.Chart{bars(s, pictured, "")}
	if slices.ContainsFunc(s.Trials, func(t *trial.Trial) bool { return t.Wire != nil }) {
		all = append(all, bars(s, further, ""))
	}
	all = append(all,
		distribution(s, "How long calls of UpdateActionStatus take", "latency, ms", func(t *trial.Trial) measure.Summary {
			return trial.RPCOf(t, trial.Updates).Latency
		}),
		distribution(s, "How long after the answer WatchActions shows the end", "lag, ms (0.1: not after the answer)", func(t *trial.Trial) measure.Summary {
			if unwatched(s, t.Side) {
				return measure.Summary{}
			}
			return trial.WatchOf(t, "WatchActions").Lag
		}),
	)
	if !slices.ContainsFunc(s.Trials, func(t *trial.Trial) bool { return len(t.Samples) > 0 }) {
		return all
	}
	all = append(all, timeline(s, "Notifications delivered", "per second", notificationRate))
	if slices.ContainsFunc(s.Trials, func(t *trial.Trial) bool {
		return slices.ContainsFunc(t.Samples, func(sample trial.Sample) bool { return sample.Pending != nil })
	}) {
		all = append(all, timeline(s, "Pending in the pump", "payloads", pending))
	}
	return append(all, timeline(s, "Watchers behind: the end was answered, and their stream has not shown it", "watchers", func(t *trial.Trial) plotter.XYs {
		if unwatched(s, t.Side) {
			return nil
		}
		return behind(t)
	}))
}

func unwatched(s *trial.Set, side string) bool {
	return slices.ContainsFunc(s.Sides, func(one trial.Side) bool { return one.Name == side && one.Unwatched })
}

// distribution has the median of the trials at each percentile and, behind it, the trials.
func distribution(s *trial.Set, title, axis string, of func(*trial.Trial) measure.Summary) chart.Chart {
	var lines []chart.Line
	for i, side := range s.Sides {
		at := map[int][]float64{}
		trials := s.Of(side.Name)
		for _, t := range trials {
			line := chart.Line{Name: side.Name, Color: colorOf(side.Name, i), Faint: true}
			for j, ms := range of(t).Distribution {
				line.XY = append(line.XY, plotter.XY{X: measure.Percentiles[j], Y: ms})
				at[j] = append(at[j], ms)
			}
			lines = append(lines, line)
		}
		middle := chart.Line{Name: side.Name, Color: colorOf(side.Name, i)}
		for j, percentile := range measure.Percentiles {
			if len(at[j]) == len(trials) && len(trials) > 0 {
				middle.XY = append(middle.XY, plotter.XY{X: percentile, Y: measure.SpreadOf(at[j]).Median})
			}
		}
		lines = append(lines, middle)
	}
	return chart.Distribution(chartWidth, chartHeight, lowestLatency, title, axis, lines)
}

// timeline has the middle trial of each side by p95 and, behind it, the others.
func timeline(s *trial.Set, title, axis string, of func(*trial.Trial) plotter.XYs) chart.Chart {
	var lines []chart.Line
	for i, side := range s.Sides {
		trials := s.Of(side.Name)
		slices.SortStableFunc(trials, func(a, b *trial.Trial) int {
			return cmp.Compare(trial.RPCOf(a, trial.Updates).Latency.P95, trial.RPCOf(b, trial.Updates).Latency.P95)
		})
		for j, t := range trials {
			lines = append(lines, chart.Line{Name: side.Name, Color: colorOf(side.Name, i), Faint: j != len(trials)/2, XY: of(t)})
		}
	}
	return chart.Timeline(chartWidth, chartHeight, title, axis, lines)
}

func notificationRate(t *trial.Trial) (line plotter.XYs) {
	for i := rateWindow; i < len(t.Samples); i++ {
		from, to := t.Samples[i-rateWindow], t.Samples[i]
		if span := to.Seconds - from.Seconds; span > 0 {
			line = append(line, plotter.XY{X: (from.Seconds + to.Seconds) / 2, Y: float64(to.Notifications-from.Notifications) / span})
		}
	}
	return line
}

func pending(t *trial.Trial) (line plotter.XYs) {
	for _, sample := range t.Samples {
		if sample.Pending != nil {
			line = append(line, plotter.XY{X: sample.Seconds, Y: *sample.Pending})
		}
	}
	return line
}

func behind(t *trial.Trial) (line plotter.XYs) {
	for _, sample := range t.Samples {
		line = append(line, plotter.XY{X: sample.Seconds, Y: float64(sample.Behind)})
	}
	return line
}
