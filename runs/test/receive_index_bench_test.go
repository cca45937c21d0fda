package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow/workflowconnect"
	"github.com/flyteorg/flyte/v2/runs"
	"github.com/flyteorg/flyte/v2/runs/config"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

// startForWrites runs a service that announces nothing, and returns a client of it for writing.
func startForWrites(b *testing.B, db database.DbConfig, rtt time.Duration) client {
	b.Helper()
	cfg := config.Default()
	cfg.Server.Address, cfg.Server.MetricsAddress = "127.0.0.1:0", ""
	cfg.Database.DbConfig = db
	cfg.Runs.Notify.Mode, cfg.Runs.Notify.CatchUpInterval = impl.NotifyModeOff, time.Hour
	if rtt > 0 {
		proxy, err := pgproxy.Start(net.JoinHostPort(db.Postgres.Host, strconv.Itoa(db.Postgres.Port)), pgproxy.Options{RTT: rtt})
		require.NoError(b, err)
		b.Cleanup(proxy.Close)
		_, port, err := net.SplitHostPort(proxy.Addr())
		require.NoError(b, err)
		cfg.Database.Postgres.Host = "127.0.0.1"
		cfg.Database.Postgres.Port, err = strconv.Atoi(port)
		require.NoError(b, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	out := &announcement{found: make(chan string, 1)}
	ended := make(chan error, 1)
	go func() { ended <- runs.Run(ctx, cfg, out) }()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		require.NoError(b, <-ended)
	})
	select {
	case url := <-out.found:
		return client{internal: workflowconnect.NewInternalRunServiceClient(&http.Client{Transport: transport}, url)}
	case <-time.After(deadline):
		require.Fail(b, "the service did not become ready")
	}
	return client{}
}

// What the catch-up's changes to the indexes cost UpdateActionStatus and RecordActionEvents (ten events in a call, of no error): the same calls,
// fifty at a time, to a service on a database with them and to one without, in random order batch by batch. index-cost-% is the median of
// the paired ratios of the times that a batch takes, with the quartiles beside it.
func BenchmarkCatchUpIndexes(b *testing.B) {
	const concurrency, each, actions = 50, 4, 5000
	run := runID("run")
	calls := map[string]func(ctx context.Context, c client, n int) error{
		"UpdateActionStatus": func(ctx context.Context, c client, n int) error {
			phases := []common.ActionPhase{2, initializing, running, 6} // FAILED may go back to any
			return c.update(ctx, run, 1+n%actions, phases[n/actions%len(phases)])
		},
		"RecordActionEvents": func(ctx context.Context, c client, n int) error {
			var events []*workflow.ActionEvent
			for k := range 10 {
				e := event(run, 1+(10*n+k)%actions, running)
				e.Attempt = uint32(1 + (10*n+k)/actions)
				events = append(events, e)
			}
			return c.recordEvents(ctx, events...)
		},
	}
	for _, rtt := range []time.Duration{0, 4 * time.Millisecond} {
		for name, call := range calls {
			b.Run(fmt.Sprintf("%s/rtt=%s", name, rtt), func(b *testing.B) {
				open := func(indexed bool) client {
					db := dbtest.Config(b)
					c := startForWrites(b, db, rtt)
					conn, err := pgx.Connect(b.Context(), database.GetPostgresDsn(b.Context(), db.Postgres))
					require.NoError(b, err)
					defer func() { _ = conn.Close(context.Background()) }()
					if !indexed {
						// As it was before the catch-up: without its indexes, and with events of no error in the other.
						_, err = conn.Exec(b.Context(), `
							DROP INDEX idx_actions_updated_at, idx_action_events_created_at, idx_action_events_error_kind;
							CREATE INDEX idx_action_events_error_kind ON action_events (error_kind)`)
						require.NoError(b, err)
					}
					_, err = conn.Exec(b.Context(), `INSERT INTO actions (project, domain, run_name, name, parent_action_name)
						SELECT 'project', 'domain', 'run', 'a' || i, CASE WHEN i > 0 THEN 'a0' END FROM generate_series(0, $1::int) AS i`, actions)
					require.NoError(b, err)
					// Without figures about the table the planner may find actions by their run alone, on either side.
					_, err = conn.Exec(b.Context(), "VACUUM ANALYZE actions")
					require.NoError(b, err)
					return c
				}
				sides := [2]client{open(false), open(true)}
				var ratios []float64
				for round := 0; b.Loop(); round++ {
					var took [2]time.Duration
					for _, side := range rand.Perm(2) {
						begin := time.Now()
						var calling sync.WaitGroup
						for i := range concurrency {
							calling.Go(func() {
								for k := range each {
									if err := call(b.Context(), sides[side], (round*concurrency+i)*each+k); err != nil {
										b.Error(err)
									}
								}
							})
						}
						calling.Wait()
						took[side] = time.Since(begin)
					}
					ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
				}
				slices.Sort(ratios)
				at := func(q int) float64 { return 100 * (ratios[min(len(ratios)*q/4, len(ratios)-1)] - 1) }
				b.ReportMetric(at(2), "index-cost-%")
				b.ReportMetric(at(1), "quartile1-%")
				b.ReportMetric(at(3), "quartile3-%")
				b.ReportMetric(float64(2*concurrency*each*len(ratios))/b.Elapsed().Seconds(), "calls/s")
			})
		}
	}
}
