package chart

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is a finished drawing.
type Chart struct {
	width, height vg.Length
	alt           string
	body          string // the elements within <svg>
}

const margin = 8 // points around everything

// render draws into boxes of a canvas. The caption stands above all; alt is for those who cannot see the drawing.
func render(width, height float64, caption, alt string, draws func(draw.Canvas)) Chart {
	w, h := vg.Points(width), vg.Points(height)
	canvas := vgsvg.New(w, h)
	all := draw.New(canvas)
	all.SetColor(paper)
	all.Fill(all.Rectangle.Path())
	inner := draw.Crop(all, margin, -margin, margin, -margin)
	if caption != "" {
		s := restyled(draw.TextStyle{XAlign: draw.XLeft, YAlign: draw.YTop}, labelSize, muted, false)
		inner.FillText(s, vg.Point{X: inner.Min.X, Y: inner.Max.Y}, caption)
		inner = draw.Crop(inner, 0, 0, 0, -vg.Points(labelSize+10))
	}
	draws(inner)
	var out bytes.Buffer
	_, _ = canvas.WriteTo(&out) // into memory
	body := out.String()
	body = body[strings.Index(body, "<g"):strings.LastIndex(body, "</svg>")]
	// The letters are measured in Liberation Sans, which has the widths of Arial and Helvetica.
	body = strings.ReplaceAll(body, "font-family:Liberation Sans", "font-family:Helvetica,Arial,Liberation Sans,sans-serif")
	return Chart{width: w, height: h, alt: alt, body: body}
}

func renderPlot(width, height float64, alt string, p *plot.Plot) Chart {
	return render(width, height, "", alt, p.Draw)
}

// Inline is the drawing as an element of a page that has Style.
func (c Chart) Inline() string { return c.svg("") }

// SVG is the drawing as a file of its own, for light and dark pages.
func (c Chart) SVG() string {
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + c.svg("<style>\n"+Style()+"</style>\n") + "\n"
}

func (c Chart) svg(style string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]g" height="%[2]g" viewBox="0 0 %[1]g %[2]g" role="img" aria-label="%[3]s">
<title>%[3]s</title>
%[4]s%[5]s</svg>`, c.width.Points(), c.height.Points(), html.EscapeString(c.alt), style, c.body)
}
