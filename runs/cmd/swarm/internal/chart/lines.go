package chart

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Line is one series. Lines of one name share the entry in the legend.
type Line struct {
	Name  string
	Color color.RGBA
	// Faint lines are drawn behind, thin and pale: single trials behind their median.
	Faint bool
	XY    plotter.XYs
}

// Distribution draws values by percentile: the percentiles spread out towards 100, as slow answers are what matters, and the values on
// a logarithmic scale. X of the lines is the percentile (below 100), Y the value (above 0).
func Distribution(width, height float64, title, yAxis string, lines []Line) Chart {
	p := newPlot(title, "percentile of the answers", yAxis)
	low, high, far := math.Inf(1), 0.0, 0.0
	for i, line := range lines {
		placed := make(plotter.XYs, len(line.XY))
		for j, point := range line.XY {
			y := max(point.Y, 1e-3)
			low, high = min(low, y), max(high, y)
			placed[j] = plotter.XY{X: nines(point.X), Y: y}
			far = max(far, placed[j].X)
		}
		lines[i].XY = placed
	}
	if high == 0 {
		low, high, far = 1, 10, 2
	}
	p.Add(rules(true, true))
	add(p, lines)
	p.X.Min, p.X.Max = 0, max(far, 1)
	p.X.Tick.Marker = percentileTicks{}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	p.Y.Min, p.Y.Max = low/1.15, high*1.15
	p.Legend.Left = true
	p.Legend.XOffs = vg.Points(8)
	return renderPlot(width, height, title, p)
}

// nines is where a percentile stands: 0, 90, 99, 99.9 are one apart.
func nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

type percentileTicks struct{}

func (percentileTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for _, percentile := range []float64{1, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99} {
		if at := nines(percentile); at >= low && at <= high {
			ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%g %%", percentile)})
		}
	}
	return ticks
}

// decades marks 1, 2 and 5 times the powers of ten or, over a wide range, only those.
type decades struct{}

func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	wide := math.Log10(high/low) > 3
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for _, times := range []float64{1, 2, 5} {
			if value := power * times; value >= low && value <= high && (times == 1 || !wide) {
				ticks = append(ticks, plot.Tick{Value: value, Label: Short(value)})
			}
		}
	}
	return ticks
}

// Timeline draws values over the seconds of a trial, from zero.
func Timeline(width, height float64, title, yAxis string, lines []Line) Chart {
	p := newPlot(title, "seconds since the first call", yAxis)
	p.Add(rules(true, false))
	add(p, lines)
	p.X.Min, p.Y.Min = 0, 0
	top := 0.0
	for _, line := range lines {
		for _, point := range line.XY {
			top = max(top, point.Y)
		}
	}
	p.Y.Max = max(top*1.2, 1)
	p.Y.Tick.Marker = rounded{}
	p.X.Tick.Marker = rounded{}
	return renderPlot(width, height, title, p)
}

// rounded marks about six round numbers.
type rounded struct{}

func (rounded) Ticks(low, high float64) []plot.Tick {
	step := niceStep((high - low) / 6)
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: Short(i * step)})
	}
	return ticks
}

func add(p *plot.Plot, lines []Line) {
	named := map[string]bool{}
	for _, faint := range []bool{true, false} {
		for _, line := range lines {
			if line.Faint != faint || len(line.XY) == 0 {
				continue
			}
			drawn := &plotter.Line{XYs: line.XY}
			drawn.Color, drawn.Width = line.Color, vg.Points(lineWidth)
			if faint {
				pale := color.NRGBA{R: line.Color.R, G: line.Color.G, B: line.Color.B, A: faintAlpha}
				drawn.Color, drawn.Width = pale, vg.Points(lineWidth/2)
			}
			p.Add(drawn)
			if !faint && !named[line.Name] {
				p.Legend.Add(line.Name, drawn)
				named[line.Name] = true
			}
		}
	}
}
