package app

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Config is the section server: where the process listens and how long it waits for what.
type Config struct {
	// Address serves the RPCs. The default, loopback, keeps a service without authentication to its own machine.
	Address string `yaml:"address" desc:"host:port that serves the RPCs, over HTTP/1.1 and HTTP/2 without TLS (h2c)"`
	// MetricsAddress serves what is for operators only. Equal to Address, both share one port.
	MetricsAddress string `yaml:"metricsAddress" desc:"host:port that serves /metrics; the same as address: on one port; empty: nowhere"`

	// MaxHeaderBytes bounds what a client can make the process hold before its request is looked at.
	MaxHeaderBytes int `yaml:"maxHeaderBytes" desc:"largest request header (bytes, at least 4096)"`
	// ReadHeaderTimeout ends connections that send their header a byte at a time.
	ReadHeaderTimeout time.Duration `yaml:"readHeaderTimeout" desc:"longest time in which a request's header must arrive (duration)"`
	// ReadBodyTimeout does the same for bodies. A handler whose client sends for as long as it likes takes the bound away by
	// http.ResponseController.SetReadDeadline, with the zero time.
	ReadBodyTimeout time.Duration `yaml:"readBodyTimeout" desc:"longest time in which a request's body must arrive, unless it is a client's stream (duration)"`
	// IdleTimeout closes connections that wait for a next request.
	IdleTimeout time.Duration `yaml:"idleTimeout" desc:"age at which a connection without a request is closed (duration)"`
	// KeepAlive finds out that the client of a quiet stream is gone: such streams say nothing for hours and are as good as
	// dead ones until somebody asks.
	KeepAlive time.Duration `yaml:"keepAlive" desc:"silence on a connection after which the client is pinged; no answer in the same time again closes it (duration)"`
	// MaxStreamsPerConnection is HTTP/2's limit; further requests of that connection wait in the client.
	MaxStreamsPerConnection int `yaml:"maxStreamsPerConnection" desc:"requests and streams that one HTTP/2 connection carries at a time"`

	// CheckTimeout bounds /readyz.
	CheckTimeout time.Duration `yaml:"checkTimeout" desc:"longest time that one readiness check may take (duration)"`
	// DrainTimeout, StopTimeout and CloseTimeout (once per thing closed) add up to the longest way from signal to end; an
	// orchestrator's grace period must be longer.
	DrainTimeout time.Duration `yaml:"drainTimeout" desc:"at shutdown, longest time that requests in flight get to finish (duration)"`
	StopTimeout  time.Duration `yaml:"stopTimeout" desc:"at shutdown, longest time that background workers get to stop (duration)"`
	CloseTimeout time.Duration `yaml:"closeTimeout" desc:"at shutdown, longest time that each thing that was opened gets to close (duration)"`
}

// DefaultConfig suits a developer's machine as it is, and a server with another Address.
func DefaultConfig() Config {
	return Config{
		Address:                 "127.0.0.1:8090",
		MetricsAddress:          "127.0.0.1:10254",
		MaxHeaderBytes:          64 << 10,
		ReadHeaderTimeout:       10 * time.Second,
		ReadBodyTimeout:         time.Minute,
		IdleTimeout:             2 * time.Minute,
		KeepAlive:               15 * time.Second,
		MaxStreamsPerConnection: 10_000,
		CheckTimeout:            2 * time.Second,
		DrainTimeout:            10 * time.Second,
		StopTimeout:             5 * time.Second,
		CloseTimeout:            10 * time.Second,
	}
}

// Validate names each field that is out of bounds, and the bound.
func (c Config) Validate() error {
	var errs []error
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		errs = append(errs, fmt.Errorf("address: %q is not host:port", c.Address))
	}
	if _, _, err := net.SplitHostPort(c.MetricsAddress); err != nil && c.MetricsAddress != "" {
		errs = append(errs, fmt.Errorf("metricsAddress: %q is neither host:port nor empty", c.MetricsAddress))
	}
	if c.MaxHeaderBytes < 4096 {
		errs = append(errs, fmt.Errorf("maxHeaderBytes: %d is below 4096", c.MaxHeaderBytes))
	}
	if c.MaxStreamsPerConnection < 1 {
		errs = append(errs, fmt.Errorf("maxStreamsPerConnection: %d is below 1", c.MaxStreamsPerConnection))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"readHeaderTimeout", c.ReadHeaderTimeout}, {"readBodyTimeout", c.ReadBodyTimeout}, {"idleTimeout", c.IdleTimeout},
		{"keepAlive", c.KeepAlive}, {"checkTimeout", c.CheckTimeout},
		{"drainTimeout", c.DrainTimeout}, {"stopTimeout", c.StopTimeout}, {"closeTimeout", c.CloseTimeout},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: %s is not above 0", d.name, d.value))
		}
	}

	return errors.Join(errs...)
}
