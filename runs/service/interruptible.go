package service

import (
	"net/http"
	"sync"
	"time"
)

// interruptible lets nobody wait on a client for ever: a write has sendTimeout, and once drained is closed, so that streams end, no read
// waits for the next message any more. Both are deadlines of the HTTP stream, since neither call takes a context.
func interruptible(
	drained <-chan struct{}, takesStream func(path string) bool, sendTimeout time.Duration, next http.Handler,
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		var watchers sync.WaitGroup
		if takesStream(r.URL.Path) {
			// Such a body takes as long as its client likes; whoever serves this handler may have given it a bound.
			_ = control.SetReadDeadline(time.Time{})
			ended := make(chan struct{})
			watchers.Go(func() {
				select {
				case <-drained:
					// An error means that the server cannot do it; then the stream ends with its connection.
					_ = control.SetReadDeadline(time.Now())
				case <-ended:
				}
			})
			// The control must not be used when the handler has returned.
			defer watchers.Wait()
			defer close(ended)
		}
		next.ServeHTTP(&impatientWriter{ResponseWriter: w, control: control, timeout: sendTimeout}, r)
	})
}

// impatientWriter gives every write and flush the time of timeout.
type impatientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func (w *impatientWriter) Write(p []byte) (int, error) {
	defer w.arm()()
	return w.ResponseWriter.Write(p)
}

// Flush is what Connect calls after every message of a stream.
func (w *impatientWriter) Flush() {
	defer w.arm()()
	// The error is kept by the connection and comes back from the next write.
	_ = w.control.Flush()
}

// Unwrap lets http.ResponseController reach what is wrapped.
func (w *impatientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// arm sets the deadline and returns what takes it away again: HTTP/2 ends a stream whose deadline passes even if nobody is writing.
func (w *impatientWriter) arm() (disarm func()) {
	if w.control.SetWriteDeadline(time.Now().Add(w.timeout)) != nil {
		return func() {} // not supported, as by a recorder in a test
	}
	return func() { _ = w.control.SetWriteDeadline(time.Time{}) }
}
