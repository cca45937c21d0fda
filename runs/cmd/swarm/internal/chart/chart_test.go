package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// wellFormed parses the whole of it, and returns its text.
func wellFormed(t *testing.T, svg string) string {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	text := ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return text
		}
		require.NoError(t, err)
		if data, ok := token.(xml.CharData); ok {
			text += string(data)
		}
	}
}

func TestBars(t *testing.T) {
	c := Bars(900, 2, "how <fast>", []Panel{
		{Title: "Rate", Axis: "per second", Bars: []Bar{
			{Name: "before", Color: Palette[0], Value: 10, Low: 9, High: 12, Text: "10"},
			{Name: "after & later", Color: Palette[1], Value: 100, Low: 100, High: 100, Text: "100"},
		}},
		{Title: "Lag", Axis: "ms", Bars: []Bar{{Name: "before", Color: Palette[0], Missing: true, Text: "none"}}},
		{Title: "Nothing", Axis: "ms", Bars: []Bar{{Name: "before", Color: Palette[0], Text: "0"}}},
	})
	text := wellFormed(t, c.SVG())
	for _, want := range []string{"how <fast>", "Rate", "per second", "after & later", "Lag", "none", "Nothing"} {
		assert.Contains(t, text, want)
	}
	assert.Contains(t, c.SVG(), `aria-label="Rate (per second): before 10, after &amp; later 100. Lag (ms): before none. Nothing (ms): before 0"`)
	assert.Contains(t, c.SVG(), hex(Palette[1]))
}

func TestAFileHasItsStyleAndAPageHasItOnce(t *testing.T) {
	c := Timeline(600, 300, "t", "y", []Line{{Name: "a", Color: Palette[0], XY: plotter.XYs{{X: 0, Y: 1}, {X: 1, Y: 2}}}})
	wellFormed(t, c.SVG())
	wellFormed(t, c.Inline())
	assert.Contains(t, c.SVG(), "prefers-color-scheme: dark")
	assert.NotContains(t, c.Inline(), "prefers-color-scheme")
	for _, changed := range onDark {
		assert.Contains(t, Style(), hex(changed.light))
	}
	assert.Contains(t, c.SVG(), "fill:"+hex(ink), "written as the rules expect it")
	assert.NotContains(t, c.SVG(), "#-")
	assert.Contains(t, c.SVG(), "stroke:"+hex(grid))
	assert.NotContains(t, c.SVG(), "<?xml version=\"1.0\"?>", "one prologue")
}

func TestLinesOfOneNameShareALegend(t *testing.T) {
	c := Distribution(600, 300, 0.1, "t", "ms", []Line{
		{Name: "only once", XY: plotter.XYs{{X: 1, Y: 0}, {X: 99.9, Y: 5000}}},
		{Name: "only once", XY: plotter.XYs{{X: 1, Y: 3}, {X: 50, Y: 4}}},
		{Name: "pale", Faint: true, XY: plotter.XYs{{X: 1, Y: 3}, {X: 50, Y: 4}}},
		{Name: "empty"},
	})
	text := wellFormed(t, c.SVG())
	assert.Equal(t, 1, strings.Count(text, "only once"))
	assert.NotContains(t, text, "pale")
	assert.NotContains(t, text, "empty")
	for _, tick := range []string{"50 %", "99.9 %", "0.1", "1000"} {
		assert.Contains(t, text, tick)
	}
}

func TestNothingToDrawIsDrawn(t *testing.T) {
	wellFormed(t, Bars(900, 3, "", nil).SVG())
	wellFormed(t, Distribution(600, 300, 0.1, "t", "ms", nil).SVG())
	wellFormed(t, Timeline(600, 300, "t", "ms", nil).SVG())
}

func labels(ticks []plot.Tick) (all []string) {
	for _, tick := range ticks {
		all = append(all, tick.Label)
	}
	return all
}

func TestTicks(t *testing.T) {
	assert.Equal(t, []string{"0", "1000", "2000"}, labels(few{max: 2114}.Ticks(0, 2800)))
	assert.Equal(t, []string{"0"}, labels(few{}.Ticks(0, 1)))
	assert.Equal(t, []string{"5", "10", "20", "50", "100"}, labels(decades{}.Ticks(0.5, 2.1)))
	assert.Equal(t, []string{"0.1", "1", "10", "100", "1000"}, labels(decades{}.Ticks(-1, 3.5)))
	assert.Equal(t, []string{"0", "5", "10", "15", "20"}, labels(rounded{}.Ticks(0, 24)))
	assert.Equal(t, []string{"0", "20k", "40k"}, labels(few{max: 50_000}.Ticks(0, 60_000)))
}
