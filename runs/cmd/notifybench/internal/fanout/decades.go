package fanout

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/flyteorg/flyte/v2/runs/cmd/notifybench/internal/report"
)

// decadeNames are the powers of ten that latencies are sorted into, in ms.
var decadeNames = [...]string{"< 0.01", "0.01–0.1", "0.1–1", "1–10", "10–100", "> 100"}

// decades sorts latencies by power of ten. It is for one goroutine.
type decades [len(decadeNames)]struct {
	count int64
	sum   time.Duration
}

func (d *decades) add(latency time.Duration) {
	i, bound := 0, 10*time.Microsecond
	for i < len(d)-1 && latency >= bound {
		i, bound = i+1, bound*10
	}
	d[i].count++
	d[i].sum += latency
}

func (d *decades) merge(other *decades) {
	for i := range d {
		d[i].count += other[i].count
		d[i].sum += other[i].sum
	}
}

// Decade is one line of the histogram.
type Decade struct {
	Range   string  `json:"rangeMs"`
	Count   int64   `json:"count"`
	Share   float64 `json:"share"`
	Average float64 `json:"averageMs"`
}

// list returns the lines; shares are of all latencies.
func (d *decades) list() []Decade {
	var total int64
	for _, one := range d {
		total += one.count
	}
	lines := make([]Decade, len(d))
	for i, one := range d {
		lines[i] = Decade{Range: decadeNames[i], Count: one.count}
		if one.count > 0 {
			lines[i].Share = float64(one.count) / float64(total)
			lines[i].Average = float64(one.sum) / float64(one.count) / float64(time.Millisecond)
		}
	}
	return lines
}

const barWidth = 40

func histogram(out io.Writer, lines []Decade) {
	rows := [][]string{{"latency ms", "count", "share", "average ms", ""}}
	for _, line := range lines {
		average := "–"
		if line.Count > 0 {
			average = report.Ms(line.Average)
		}
		bar := strings.Repeat("█", int(line.Share*barWidth+0.5))
		rows = append(rows, []string{line.Range, report.Count(line.Count), fmt.Sprintf("%.2f %%", line.Share*100), average, fmt.Sprintf("%-*s", barWidth, bar)})
	}
	report.Table(out, rows...)
}
