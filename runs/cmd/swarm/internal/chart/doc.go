// Package chart draws the report's charts as SVG, with gonum.org/v1/plot. It knows nothing of what they show.
//
// A chart is drawn in the colours of a light page. Style has the rules that turn it into one for a dark page where the reader prefers
// that: SVG holds them itself, for a file of its own; a page has them once, for all charts in it.
package chart
