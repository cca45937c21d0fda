package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPendingIsWhatTheServiceSays(t *testing.T) {
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, answer) }))
	defer server.Close()
	s := &sampler{metrics: server.URL, client: server.Client()}

	assert.Nil(t, s.pending(t.Context()), "no such metric")
	answer = "# TYPE runs_notify_pending gauge\nruns_notify_pending{channel=\"run_updates\"} 3\nruns_notify_pending{channel=\"action_updates\"} 40\n"
	require.NotNil(t, s.pending(t.Context()))
	assert.InDelta(t, 43, *s.pending(t.Context()), 0)
	answer = "no metrics at all {"
	assert.Nil(t, s.pending(t.Context()))
	s.metrics = "http://127.0.0.1:1/metrics"
	assert.Nil(t, s.pending(t.Context()), "nobody there")
}

func TestProcessTime(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		_, ok := processTime(os.Getpid(), false)
		assert.False(t, ok)
		return
	}
	spent := 0
	for before := ownTime(); ownTime()-before < 0.1; spent++ { // so that there is something to count
	}
	used, ok := processTime(os.Getpid(), false)
	assert.True(t, ok)
	assert.InDelta(t, ownTime(), used, 0.2)
	all, _ := processTime(os.Getpid(), true)
	assert.GreaterOrEqual(t, all, used, "with ended children")
	_, ok = processTime(1<<30, false)
	assert.False(t, ok)
	assert.Nil(t, cpuSince(nil, nil))
}
