package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The lines in a test file between which a recording stands.
const (
	beginMark = "    # recording begins\n"
	endMark   = "    # recording ends\n"
)

// missing is how promtool spells that there was no value.
const missing = "_"

// namesInRules returns the names of the series that a file of rules asks for.
func namesInRules(file string) (map[string]bool, error) {
	rules, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(?:runs|rpc|go_sql)_[a-z_]+\b`).FindAllString(string(rules), -1) {
		names[name] = true
	}
	return names, nil
}

// recording holds the values of series by scrape.
type recording struct {
	names   map[string]bool
	series  map[string][]string
	scrapes int
}

func newRecording(names map[string]bool) *recording {
	return &recording{names: names, series: map[string][]string{}}
}

func (r *recording) scrape(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			r.note(name, m)
		}
	}
	r.scrapes++
	for key, values := range r.series {
		if len(values) < r.scrapes {
			r.series[key] = append(values, missing)
		}
	}
	return nil
}

func (r *recording) note(name string, m *dto.Metric) {
	labels := []string{`job="runs"`, `instance="replica:10254"`}
	for _, l := range m.GetLabel() {
		if l.GetName() == "rpc_method" && !strings.HasSuffix(l.GetValue(), "/UpdateActionStatus") {
			return // of the RPCs the rules look at this one
		}
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	switch {
	case m.GetHistogram() != nil && r.names[name+"_bucket"]:
		h := m.GetHistogram()
		for _, b := range h.GetBucket() {
			le := strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
			r.put(name+"_bucket", append(labels, fmt.Sprintf("le=%q", le)), float64(b.GetCumulativeCount()))
		}
	case m.GetCounter() != nil && r.names[name]:
		r.put(name, labels, m.GetCounter().GetValue())
	case m.GetGauge() != nil && r.names[name]:
		r.put(name, labels, m.GetGauge().GetValue())
	}
}

func (r *recording) put(name string, labels []string, value float64) {
	key := name + "{" + strings.Join(labels, ",") + "}"
	values := r.series[key]
	for len(values) < r.scrapes {
		values = append(values, missing)
	}
	r.series[key] = append(values, strconv.FormatFloat(value, 'g', -1, 64))
}

// putInto replaces the recording in a test file.
func (r *recording) putInto(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(content), beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return fmt.Errorf("%s does not have the two lines between which a recording stands", file)
	}
	var b strings.Builder
	b.WriteString(before + beginMark)
	for _, key := range slices.Sorted(maps.Keys(r.series)) {
		fmt.Fprintf(&b, "    - {series: '%s', values: '%s'}\n", key, compress(r.series[key]))
	}
	b.WriteString(endMark + after)
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// compress writes values as promtool reads them: equal ones in a row as one with their number.
func compress(values []string) string {
	var parts []string
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && values[i+n] == values[i] {
			n++
		}
		switch {
		case n < 3:
			parts = append(parts, values[i:i+n]...)
		case values[i] == missing:
			parts = append(parts, fmt.Sprintf("_x%d", n))
		default:
			parts = append(parts, fmt.Sprintf("%s+0x%d", values[i], n-1))
		}
		i += n
	}
	return strings.Join(parts, " ")
}
