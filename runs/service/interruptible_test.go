package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStreamsOfClientsHaveNoBoundOnTheirBody has a server around the handler that bounds bodies, as flytestdlib/app does.
func TestStreamsOfClientsHaveNoBoundOnTheirBody(t *testing.T) {
	const limit = 200 * time.Millisecond
	outcomes := make(chan error, 1)
	read := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		outcomes <- err
	})
	streams := interruptible(make(chan struct{}), func(path string) bool { return path == "/stream" }, time.Minute, read)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit)))
		streams.ServeHTTP(w, r)
	}))
	defer server.Close()

	for path, bounded := range map[string]bool{"/stream": false, "/other": true} {
		body, late := io.Pipe()
		time.AfterFunc(3*limit, func() { late.Close() })
		response, err := server.Client().Post(server.URL+path, "text/plain", body)
		if err == nil {
			require.NoError(t, response.Body.Close())
		}
		select {
		case err := <-outcomes:
			require.Equal(t, bounded, err != nil, "%s: %v", path, err)
		case <-time.After(eventually):
			require.FailNow(t, "the handler still reads")
		}
		require.NoError(t, late.Close()) // lets go of the client's side
	}
}
