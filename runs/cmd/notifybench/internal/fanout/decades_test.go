package fanout

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDecades(t *testing.T) {
	var d, other decades
	for _, latency := range []time.Duration{0, 9999 * time.Nanosecond, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		d.add(latency)
	}
	other.add(100 * time.Millisecond)
	other.add(time.Hour)
	d.merge(&other)
	var counts []int64
	var shares float64
	for _, line := range d.list() {
		counts = append(counts, line.Count)
		shares += line.Share
	}
	assert.Equal(t, []int64{2, 1, 1, 1, 1, 2}, counts)
	assert.InEpsilon(t, 1, shares, 1e-9)
	assert.InEpsilon(t, 1800050, d.list()[5].Average, 1e-9)
}

func TestHistogram(t *testing.T) {
	var d decades
	d.add(50 * time.Microsecond)
	d.add(70 * time.Microsecond)
	var out strings.Builder
	histogram(&out, d.list())
	assert.Regexp(t, `0\.01–0\.1 +2 +100\.00 % +0\.060 +█{40}\n`, out.String())
	assert.Regexp(t, `> 100 +0 +0\.00 % +–\n`, out.String())
	histogram(&out, new(decades).list()) // nothing was heard
}
