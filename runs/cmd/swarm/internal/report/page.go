package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/chart"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Page writes charts and tables as an HTML page that needs no other file.
func Page(out io.Writer, s *trial.Set) error {
	type tableData struct {
		Title, Note string
		Head        []string
		Rows        [][]string
	}
	data := struct {
		Set       *trial.Set
		When      string
		Took      string
		Facts     []trial.Fact
		Headlines []headline
		Verdict   []string
		Void      bool
		Style     template.CSS
		Charts    []template.HTML
		Tables    []tableData
	}{
		Set: s, When: s.Started.Format("2006-01-02 15:04 MST"), Took: fmt.Sprintf("%.0f s", s.Seconds),
		Facts: facts(s), Headlines: headlines(s), Verdict: verdict(s), Void: len(s.Void()) > 0 || s.Interrupted,
		Style: template.CSS(chart.Style()), // ours
	}
	for _, c := range charts(s) {
		data.Charts = append(data.Charts, template.HTML(c.Inline())) // ours, with the texts in it escaped
	}
	for _, t := range tables(s) {
		data.Tables = append(data.Tables, tableData{t.title, t.note, t.head, t.rows})
	}
	return pageTemplate.Execute(out, data)
}

// headline is one ratio that says most.
type headline struct{ Value, Text string }

func headlines(s *trial.Set) (all []headline) {
	for _, pair := range s.Pairs {
		for _, f := range []trial.Figure{trial.UpdateRate, trial.UpdateP95} {
			if ratio := s.Ratio(pair, f); ratio.Runs > 0 {
				all = append(all, headline{figure(ratio.Median, true) + " ×", fmt.Sprintf("%s: %s ÷ %s", f.Name, pair.Subject, pair.Reference)})
			}
		}
	}
	for _, side := range s.Sides {
		if never := s.Spread(side.Name, trial.Never); never.Runs > 0 {
			var of int64
			for _, t := range s.Of(side.Name) {
				_, watchers := t.Load.Never()
				of += watchers
			}
			all = append(all, headline{figure(never.Highest, true), fmt.Sprintf("of %d watchers never saw the end: %s", of, side.Name)})
		}
	}
	return all
}
