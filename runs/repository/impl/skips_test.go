package impl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

func TestOneLineStandsForManySkipsAndSaysThatNothingIsWrong(t *testing.T) {
	log := logged(t)
	r := &actionRepo{skipLines: logger.Fold{Every: skipLinePause}}
	for range 1000 {
		r.saySkipped(t.Context(), "skips-test", "p/d/r/a1")
	}
	logger.Flush()
	var lines []string
	for line := range strings.Lines(log()) {
		if strings.Contains(line, "skips-test") {
			lines = append(lines, line)
		}
	}
	require.Len(t, lines, 2)
	assert.Contains(t, lines[0], "level=WARN")
	assert.Contains(t, lines[0], "nothing is lost and nothing needs doing")
	assert.Regexp(t, `and 998 more like it within 15m0s`, lines[1])
}
