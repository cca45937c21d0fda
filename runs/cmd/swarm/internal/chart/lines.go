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
// a logarithmic scale. X of the lines is the percentile (below 100), Y the value; values below floor, which is above 0, are drawn there.
func Distribution(width, height, floor float64, title, yAxis string, lines []Line) Chart {
	p := newPlot(title, "percentile", yAxis)
	low, high, far := math.Inf(1), math.Inf(-1), 0.0
	for i, line := range lines {
		placed := make(plotter.XYs, len(line.XY))
		for j, point := range line.XY {
			at := plotter.XY{X: nines(point.X), Y: math.Log10(max(point.Y, floor))}
			low, high, far = min(low, at.Y), max(high, at.Y), max(far, at.X)
			placed[j] = at
		}
		lines[i].XY = placed
	}
	if low > high { // nothing to draw
		low, high = 0, 1
	}
	p.Add(rules(true, true))
	add(p, lines)
	p.X.Min, p.X.Max = 0, max(far, 1)
	p.X.Tick.Marker = percentileTicks{}
	// Not the library's own logarithmic scale: with one, it gives the axis label room at a wrong height.
	p.Y.Tick.Marker = decades{}
	p.Y.Min, p.Y.Max = low-0.05, high+0.05
	p.Legend.Top = false
	p.Legend.YOffs = vg.Points(6)
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

// decades marks, on an axis of decimal logarithms, 1, 2 and 5 times the powers of ten or, over a wide range, only those.
type decades struct{}

func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := math.Floor(low); power <= high; power++ {
		for _, times := range []float64{1, 2, 5} {
			at := power + math.Log10(times)
			if at >= low && at <= high && (times == 1 || high-low <= 3) {
				ticks = append(ticks, plot.Tick{Value: at, Label: Short(math.Pow(10, power) * times)})
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
