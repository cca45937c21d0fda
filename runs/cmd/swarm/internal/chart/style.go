package chart

import (
	"fmt"
	"image/color"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// Colours that change with the page.
var (
	paper = color.RGBA{R: 0xfe, G: 0xfe, B: 0xfe, A: 0xff}
	ink   = color.RGBA{R: 0x1f, G: 0x23, B: 0x28, A: 0xff}
	muted = color.RGBA{R: 0x59, G: 0x63, B: 0x6e, A: 0xff}
	grid  = color.RGBA{R: 0xd8, G: 0xde, B: 0xe4, A: 0xff}
)

// onDark is what the colours become on a dark page.
var onDark = []struct {
	light color.RGBA
	dark  string
}{{paper, "#0d1117"}, {ink, "#e6edf3"}, {muted, "#9198a1"}, {grid, "#30363d"}}

// Palette are the colours of series, readable on light and dark, and told apart by those who see no red or no green.
var Palette = []color.RGBA{
	{R: 0xd9, G: 0x77, B: 0x06, A: 0xff}, // amber
	{R: 0x1f, G: 0x7a, B: 0xec, A: 0xff}, // blue
	{R: 0x8b, G: 0x94, B: 0x9e, A: 0xff}, // grey
	{R: 0xa3, G: 0x5c, B: 0xd6, A: 0xff}, // violet
}

func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// Hex is the colour as CSS has it.
func Hex(c color.RGBA) string { return hex(c) }

// Style is the style sheet for charts that stand within a page. The library writes colours into the elements, where only rules that
// are important get past them.
func Style() string {
	b := &strings.Builder{}
	fmt.Fprintln(b, "@media (prefers-color-scheme: dark) {")
	for _, c := range onDark {
		for _, property := range []string{"fill", "stroke"} {
			fmt.Fprintf(b, "  svg [style*=\"%[1]s:%[2]s\"] { %[1]s: %[3]s !important; }\n", property, hex(c.light), c.dark)
		}
	}
	fmt.Fprintln(b, "}")
	return b.String()
}

// Sizes in points.
const (
	titleSize  = 12
	labelSize  = 10
	lineWidth  = 1.6
	hairline   = 0.6
	faintAlpha = 0x50
)

// newPlot is an empty plot in our style.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the canvas has one
	p.Title.Text = title
	p.Title.TextStyle = restyled(p.Title.TextStyle, titleSize, ink, true)
	p.Title.Padding = vg.Points(8)
	for _, axis := range []struct {
		*plot.Axis
		text string
	}{{&p.X, x}, {&p.Y, y}} {
		axis.Label.Text = axis.text
		axis.Label.TextStyle = restyled(axis.Label.TextStyle, labelSize, muted, false)
		axis.Label.Padding = vg.Points(4)
		axis.Tick.Label = restyled(axis.Tick.Label, labelSize, muted, false)
		axis.Tick.Color, axis.Color = grid, grid
		axis.Tick.Length = 0
		axis.Width, axis.Padding = hairline, 0
	}
	p.Legend.TextStyle = restyled(p.Legend.TextStyle, labelSize, ink, false)
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(4)
	p.Legend.ThumbnailWidth = vg.Points(18)
	return p
}

// restyled keeps alignment and rotation.
func restyled(s text.Style, size float64, c color.Color, bold bool) text.Style {
	s.Color = c
	s.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	if bold {
		s.Font.Weight = xfont.WeightBold
	}
	s.Handler = plot.DefaultTextHandler
	return s
}

// rules are horizontal and vertical lines at the ticks.
func rules(horizontal, vertical bool) *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = nil, nil
	if horizontal {
		g.Horizontal.Color, g.Horizontal.Width = grid, hairline
	}
	if vertical {
		g.Vertical.Color, g.Vertical.Width = grid, hairline
	}
	return g
}
