// Command record makes the recordings that the alert rules are tested on. It runs a service on a PostgreSQL of its own, four milliseconds
// away, under a steady load with watchers, healthy or through an outage of the database, and puts the metrics that the rules use between
// the two marks in a promtool test file.
//
//	go run ./docs/monitoring/record healthy docs/monitoring/tests/healthy.yaml
//	go run ./docs/monitoring/record outage docs/monitoring/tests/outage.yaml
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/runs"
	"github.com/flyteorg/flyte/v2/runs/config"
)

const (
	interval  = 10 * time.Second // of the scrapes
	length    = 12 * time.Minute
	breaksAt  = 2 * time.Minute
	healsAt   = 5 * time.Minute
	roundTrip = 4 * time.Millisecond
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "healthy" && os.Args[1] != "outage" {
		fmt.Fprintln(os.Stderr, "usage: record healthy|outage FILE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := record(ctx, os.Args[1] == "outage", os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(ctx context.Context, outage bool, file string) (err error) {
	names, err := namesInRules("docs/monitoring/alerts.yaml")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	proxy, service, stop, err := start(ctx, cancel)
	defer stop()
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		load(ctx, "http://"+service.Server.Address)
	}()
	defer func() {
		cancel(nil)
		<-ended
	}()

	r := newRecording(names)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < length; {
		if outage {
			at := time.Since(began)
			proxy.Blackhole(at >= breaksAt && at < healsAt)
		}
		// A scrape does not fail with the database: that is the point of having one.
		if err := r.scrape(ctx, "http://"+service.Server.MetricsAddress+"/metrics"); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return r.putInto(file)
}

// start runs a service behind a proxy. stop ends everything; it is never nil.
func start(ctx context.Context, failed context.CancelCauseFunc) (proxy *pgproxy.Proxy, cfg config.Config, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range slices.Backward(stops) {
			s()
		}
	}
	cfg = config.Default()
	cfg.Database.Embedded.Dir = ""
	server, err := embedded.Start(ctx, cfg.Database.Embedded, embedded.Ephemeral())
	if err != nil {
		return nil, cfg, stop, err
	}
	stops = append(stops, func() { _ = server.Stop(context.Background()) })
	proxy, err = pgproxy.Start(net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port())), pgproxy.Options{RTT: roundTrip})
	if err != nil {
		return nil, cfg, stop, err
	}
	stops = append(stops, proxy.Close)

	cfg.Database.Postgres = server.Postgres("runs")
	_, port, err := net.SplitHostPort(proxy.Addr())
	if err != nil {
		return nil, cfg, stop, err
	}
	if cfg.Database.Postgres.Port, err = strconv.Atoi(port); err != nil {
		return nil, cfg, stop, err
	}
	for _, address := range []*string{&cfg.Server.Address, &cfg.Server.MetricsAddress} {
		if *address, err = freeAddress(); err != nil {
			return nil, cfg, stop, err
		}
	}
	life, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := runs.Run(life, cfg, io.Discard); err != nil {
			failed(err)
		}
	}()
	stops = append(stops, func() {
		proxy.Blackhole(false)
		end()
		<-ended
	})
	return proxy, cfg, stop, awaitReady(ctx, "http://"+cfg.Server.Address+"/readyz")
}

func awaitReady(ctx context.Context, url string) error {
	for ctx.Err() == nil {
		response, err := http.Get(url)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		wait(ctx, 50*time.Millisecond)
	}
	return context.Cause(ctx)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
