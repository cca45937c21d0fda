package chart

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Panel is one group of bars with a scale of its own, which begins at zero.
type Panel struct {
	Title string
	// Axis says what the numbers are, with their unit.
	Axis string
	Bars []Bar
}

// Bar is one number with the range that it was found in.
type Bar struct {
	Name  string
	Color color.RGBA
	// Missing: there is no number, and Text says so.
	Missing          bool
	Value, Low, High float64
	// Text stands behind the bar.
	Text string
}

const (
	barThickness = 17
	barPitch     = 27 // from bar to bar
	panelRest    = 72 // title, tick labels, axis label
	panelGap     = 16
	roomForText  = 0.34 // of the axis, beyond the longest bar
)

// Bars draws panels side by side, in rows of columns, below a caption.
func Bars(width float64, columns int, caption string, panels []Panel) Chart {
	rows := max((len(panels)+columns-1)/columns, 1)
	most := 0
	for _, p := range panels {
		most = max(most, len(p.Bars))
	}
	panelHeight := float64(most*barPitch + panelRest)
	height := float64(rows)*(panelHeight+panelGap) - panelGap + 2*margin
	if caption != "" {
		height += labelSize + 10
	}
	return render(width, height, caption, describe(panels), func(all draw.Canvas) {
		w := (all.Max.X - all.Min.X - vg.Points(panelGap)*vg.Length(columns-1)) / vg.Length(columns)
		for i, panel := range panels {
			left := all.Min.X + vg.Length(i%columns)*(w+vg.Points(panelGap))
			top := all.Max.Y - vg.Length(i/columns)*vg.Points(panelHeight+panelGap)
			panel.plot().Draw(draw.Canvas{Canvas: all.Canvas, Rectangle: vg.Rectangle{
				Min: vg.Point{X: left, Y: top - vg.Points(panelHeight)}, Max: vg.Point{X: left + w, Y: top},
			}})
		}
	})
}

func describe(panels []Panel) string {
	var all []string
	for _, p := range panels {
		var bars []string
		for _, b := range p.Bars {
			bars = append(bars, b.Name+" "+b.Text)
		}
		all = append(all, fmt.Sprintf("%s (%s): %s", p.Title, p.Axis, strings.Join(bars, ", ")))
	}
	return strings.Join(all, ". ")
}

func (panel Panel) plot() *plot.Plot {
	p := newPlot(panel.Title, panel.Axis, "")
	p.Add(rules(false, true))
	top := 0.0
	names := make([]string, len(panel.Bars))
	labels := &barTexts{}
	for i, bar := range panel.Bars {
		at := float64(len(panel.Bars) - 1 - i) // the first one on top
		names[len(names)-1-i] = bar.Name
		top = max(top, bar.Value, bar.High)
		labels.texts = append(labels.texts, barText{at: at, end: max(bar.Value, bar.High), text: bar.Text, missing: bar.Missing})
		if bar.Missing {
			continue
		}
		p.Add(&oneBar{at: at, Bar: bar})
	}
	p.Add(labels)
	p.NominalY(names...)
	p.Y.Tick.Label.Color = ink
	p.Y.Width = 0
	p.Y.Min, p.Y.Max = -0.62, float64(len(panel.Bars))-0.38
	p.X.Min, p.X.Max = 0, top*(1+roomForText)
	if top == 0 {
		p.X.Max = 1
	}
	p.X.Width = 0
	p.X.Tick.Marker = few{max: top}
	return p
}

// few marks zero and about three round numbers up to max.
type few struct{ max float64 }

func (f few) Ticks(low, _ float64) []plot.Tick {
	if f.max <= 0 {
		return []plot.Tick{{Value: 0, Label: "0"}}
	}
	step := niceStep(f.max / 2.5)
	var ticks []plot.Tick
	for value := low; value <= f.max*(1+1e-9); value += step {
		ticks = append(ticks, plot.Tick{Value: value, Label: Short(value)})
	}
	return ticks
}

// niceStep is the 1, 2 or 5 times a power of ten that is next to about.
func niceStep(about float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(about)))
	switch share := about / power; {
	case share < 1.5:
		return power
	case share < 3.5:
		return 2 * power
	case share < 7.5:
		return 5 * power
	}
	return 10 * power
}

// Short writes a number of an axis: 0.05, 20, 1.5k.
func Short(value float64) string {
	if math.Abs(value) >= 10_000 {
		return fmt.Sprintf("%.4gk", value/1000)
	}
	return fmt.Sprintf("%.4g", value)
}

// oneBar draws a bar, and the range over its end as a line.
type oneBar struct {
	at float64
	Bar
}

func (b *oneBar) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	half := vg.Points(barThickness) / 2
	left, right, middle := x(0), x(b.Value), y(b.at)
	c.FillPolygon(b.Color, []vg.Point{
		{X: left, Y: middle - half}, {X: right, Y: middle - half}, {X: right, Y: middle + half}, {X: left, Y: middle + half},
	})
	if b.Low == b.High {
		return
	}
	line := draw.LineStyle{Color: ink, Width: vg.Points(1)}
	low, high, cap := x(b.Low), x(b.High), vg.Points(3)
	c.StrokeLine2(line, low, middle, high, middle)
	c.StrokeLine2(line, low, middle-cap, low, middle+cap)
	c.StrokeLine2(line, high, middle-cap, high, middle+cap)
}

type barText struct {
	at, end float64
	text    string
	missing bool
}

type barTexts struct{ texts []barText }

func (b *barTexts) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, one := range b.texts {
		s := draw.TextStyle{XAlign: draw.XLeft, YAlign: draw.YCenter}
		if one.missing {
			s = restyled(s, labelSize, muted, false)
		} else {
			s = restyled(s, labelSize, ink, true)
		}
		c.FillText(s, vg.Point{X: x(one.end) + vg.Points(5), Y: y(one.at)}, one.text)
	}
}
