package app

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// bodyWithin gives the body of each request limit to arrive. What a handler leaves unread is covered too: over HTTP/1.1 the server reads
// it, to come to the next request.
func bodyWithin(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		if control.SetReadDeadline(time.Now().Add(limit)) == nil {
			timed := *r
			timed.Body = &timedBody{ReadCloser: r.Body, control: control}
			r = &timed
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody takes the deadline away at the end of the body. From there on the server itself reads, to learn that the client has gone, and a
// deadline would look to it as if it had.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		// It could be set, so it can be taken away.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
