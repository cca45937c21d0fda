package impl

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOneLineStandsForManySkips(t *testing.T) {
	log := logged(t)
	var s skips
	began := time.Now()
	for i := range 1000 {
		s.say(t.Context(), "c", "p", began.Add(time.Duration(i)*time.Millisecond))
	}
	assert.Equal(t, 1, strings.Count(log(), "is full"))
	s.say(t.Context(), "c", "late", began.Add(skipLinePause))
	assert.Contains(t, log(), `skipping \"late\" for it, which it is given later (999 more since the last line)`)
	assert.Equal(t, 2, strings.Count(log(), "is full"))
}
