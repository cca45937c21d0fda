package bench

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

const (
	sampleEvery   = 250 * time.Millisecond
	sampleTimeout = 200 * time.Millisecond
	pendingMetric = "runs_notify_pending"

	pumpSuffix     = "notify-pump"
	listenerSuffix = "notify-listener"
)

// sampler looks at a running trial again and again.
type sampler struct {
	proxy   *pgproxy.Proxy
	before  pgproxy.Stats
	load    *load.Load
	metrics string // URL
	client  *http.Client
	begin   time.Time
	samples []trial.Sample
	end     chan struct{}
	ended   chan struct{}
}

func startSampler(ctx context.Context, proxy *pgproxy.Proxy, l *load.Load, metrics string) *sampler {
	s := &sampler{
		proxy: proxy, before: proxy.Stats(), load: l, metrics: metrics,
		client: &http.Client{Transport: &http.Transport{}},
		begin:  time.Now(), end: make(chan struct{}), ended: make(chan struct{}),
	}
	go s.run(context.WithoutCancel(ctx))
	return s
}

func (s *sampler) run(ctx context.Context) {
	defer close(s.ended)
	defer s.client.CloseIdleConnections()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s.look(ctx)
		select {
		case <-s.end:
			s.look(ctx)
			return
		case <-tick.C:
		}
	}
}

func (s *sampler) look(ctx context.Context) {
	progress := s.load.Progress()
	s.samples = append(s.samples, trial.Sample{
		Seconds:       time.Since(s.begin).Seconds(),
		Calls:         progress.Calls,
		Behind:        progress.Behind,
		Notifications: s.proxy.Stats().Matching(listenerSuffix).Notifications - s.before.Matching(listenerSuffix).Notifications,
		Pending:       s.pending(ctx),
	})
}

// pending asks the service how much its pump holds; nil when it does not say, or not in time.
func (s *sampler) pending(ctx context.Context) *float64 {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.metrics, nil)
	if err != nil {
		return nil
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil || families[pendingMetric] == nil {
		return nil
	}
	var sum float64
	for _, metric := range families[pendingMetric].GetMetric() {
		sum += metric.GetGauge().GetValue()
	}
	return &sum
}

// stop ends the looking, and returns what was seen and what crossed the wire meanwhile.
func (s *sampler) stop() ([]trial.Sample, *trial.Wire) {
	close(s.end)
	<-s.ended
	after := s.proxy.Stats()
	crossed := func(suffix string) trial.Traffic {
		a, b := after.Matching(suffix), s.before.Matching(suffix)
		return trial.Traffic{
			Statements: a.Statements - b.Statements, RoundTrips: a.RoundTrips - b.RoundTrips, Notifications: a.Notifications - b.Notifications,
		}
	}
	return s.samples, &trial.Wire{
		Seconds: time.Since(s.begin).Seconds(),
		Pump:    crossed(pumpSuffix), Listener: crossed(listenerSuffix), All: crossed(""),
	}
}
