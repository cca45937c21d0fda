package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bodyLimit is short, and long enough for a body that is sent at once.
const bodyLimit = time.Second

func beginWithBodies(t *testing.T, outcomes chan<- error) *life {
	t.Helper()
	cfg := testConfig()
	cfg.ReadBodyTimeout = bodyLimit
	a := New(cfg)
	a.Handle("/read", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		outcomes <- err
	}))
	a.Handle("/ignore", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	a.Handle("/endless", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Time{}))
		_, err := io.Copy(io.Discard, r.Body)
		outcomes <- err
	}))
	// Stays on after its body has come, as a watch does.
	a.Handle("/stay", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			outcomes <- err
			return
		}
		select {
		case <-r.Context().Done():
			outcomes <- errors.New("the client counts as gone")
		case <-time.After(2 * bodyLimit):
			outcomes <- nil
		}
	}))
	return beginReady(t, a)
}

func outcome(t *testing.T, outcomes <-chan error) error {
	t.Helper()
	select {
	case err := <-outcomes:
		return err
	case <-time.After(patience):
		require.Fail(t, "the handler still reads")
		return nil
	}
}

func TestABodyThatDoesNotArriveEndsItsRequest(t *testing.T) {
	outcomes := make(chan error, 1)
	l := beginWithBodies(t, outcomes)

	for _, path := range []string{"/read", "/ignore"} {
		conn, err := net.Dial("tcp", l.Address())
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1", path)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		_, err = io.Copy(io.Discard, conn)
		assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "%s: the server ends the connection", path)
	}
	require.ErrorIs(t, outcome(t, outcomes), os.ErrDeadlineExceeded)

	body, hold := io.Pipe()
	defer hold.Close()
	resp, err := newClient(t, true).Post(l.url("/read"), "text/plain", body)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	require.ErrorIs(t, outcome(t, outcomes), os.ErrDeadlineExceeded, "HTTP/2")
}

func TestTheBoundIsOnTheBodyAlone(t *testing.T) {
	outcomes := make(chan error, 1)
	l := beginWithBodies(t, outcomes)

	for _, http2 := range []bool{false, true} {
		client := newClient(t, http2)
		resp, err := client.Post(l.url("/stay"), "text/plain", strings.NewReader("all of it"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, outcome(t, outcomes), "HTTP/2: %t", http2)

		body, late := io.Pipe()
		go func() {
			time.Sleep(2 * bodyLimit)
			late.Close()
		}()
		resp, err = client.Post(l.url("/endless"), "text/plain", body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, outcome(t, outcomes), "HTTP/2: %t, lifted by the handler", http2)
	}
}
