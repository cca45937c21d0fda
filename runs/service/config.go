package service

import (
	"errors"
	"fmt"
	"time"
)

// Config bounds what one client can ask for.
type Config struct {
	// MaxRequestBytes bounds one message from a client, after decompression. A larger one is refused with resource_exhausted. An
	// event takes some 200 bytes, so the default of 8 MiB has room for about 40,000 in one request.
	MaxRequestBytes int `yaml:"maxRequestBytes" desc:"largest request message in bytes, after decompression"`
	// RequestTimeout bounds the work for one request, and for one message of a stream, on top of the client's own deadline. When
	// it passes, the answer is unavailable: a database that does not answer is the usual reason. Default 30 s.
	RequestTimeout time.Duration `yaml:"requestTimeout" desc:"longest time spent on one request, or on one message of a stream (duration)"`
	// StreamSendTimeout bounds how long a watch waits for its client to take one message. A client that takes nothing for so long
	// loses the stream and may open another; otherwise it would hold a subscription for as long as it likes. Default 1 min.
	StreamSendTimeout time.Duration `yaml:"streamSendTimeout" desc:"longest time a watch waits for its client to take one message (duration)"`
}

// DefaultConfig returns the values that apply where nothing is configured.
func DefaultConfig() Config {
	return Config{
		MaxRequestBytes:   8 << 20,
		RequestTimeout:    30 * time.Second,
		StreamSendTimeout: time.Minute,
	}
}

// Validate names every field that is out of its bounds.
func (c Config) Validate() error {
	var problems []error
	if c.MaxRequestBytes < 1<<10 || c.MaxRequestBytes > 1<<30 {
		problems = append(problems, fmt.Errorf("maxRequestBytes: %d is not within 1024 to %d", c.MaxRequestBytes, 1<<30))
	}
	if c.RequestTimeout <= 0 {
		problems = append(problems, fmt.Errorf("requestTimeout: %s is not above 0", c.RequestTimeout))
	}
	if c.StreamSendTimeout <= 0 {
		problems = append(problems, fmt.Errorf("streamSendTimeout: %s is not above 0", c.StreamSendTimeout))
	}
	return errors.Join(problems...)
}
