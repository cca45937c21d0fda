package pgnotify

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

// rtt is that of flyteorg/flyte#7756: a VPC.
const rtt = 4 * time.Millisecond

// Distinct notifications delivered per second at 4 ms a round trip, in one run: one statement for each, as Flyte's pump did, against
// the pump here. All of them are heard by an independent session before the clock stops.
func BenchmarkThroughput(b *testing.B) {
	dsn := testDSN(b)
	_, through := proxyTo(b, dsn, pgproxy.Options{RTT: rtt})
	round := 0
	var serialTime, batchedTime time.Duration
	var serialSent, batchedSent int

	for b.Loop() {
		round++
		// Few and many, so that both take about as long; the rate does not depend on the number.
		few, many := prefixed(fmt.Sprint("few", round), 200), prefixed(fmt.Sprint("many", round), 100_000)

		ears := listen(b, dsn, "c")
		conn, err := pgx.Connect(b.Context(), through)
		require.NoError(b, err)
		serial := func(payloads []string) {
			for _, p := range payloads {
				_, err := conn.Exec(b.Context(), "SELECT pg_notify($1, $2)", "c", p)
				require.NoError(b, err)
			}
			ears.awaits("c", payloads...)
		}
		serial([]string{"warm" + strconv.Itoa(round)})
		start := time.Now()
		serial(few)
		serialTime += time.Since(start)
		serialSent += len(few)
		require.NoError(b, conn.Close(b.Context()))

		pump, err := NewPump("c")
		require.NoError(b, err)
		sender, err := NewSender(SenderConfig{DSN: through})
		require.NoError(b, err)
		require.NoError(b, sender.Send(b.Context(), batchOf("c", "warm")).Err)
		start = time.Now()
		go func() {
			for _, p := range many {
				pump.Add("c", p)
			}
			_, _ = pump.Close(context.Background())
		}()
		for channel := range pump.Due() {
			out := sender.Send(b.Context(), pump.Take(channel))
			require.NoError(b, out.Err)
			pump.Settle(out)
		}
		ears.awaits("c", many...)
		batchedTime += time.Since(start)
		batchedSent += len(many)
		require.NoError(b, sender.Close())
		ears.close()
	}
	serialRate := float64(serialSent) / serialTime.Seconds()
	batchedRate := float64(batchedSent) / batchedTime.Seconds()
	b.ReportMetric(serialRate, "serial/s")
	b.ReportMetric(batchedRate, "batched/s")
	b.ReportMetric(batchedRate/serialRate, "times-serial")
	b.ReportMetric(0, "ns/op")
}

// What a thousand payloads cost in each form, without a network in between, so that the reader sees what the multi-call statement costs
// beside the round trips that it saves. Reported is the time at the client and the CPU time of the server's backend, for a thousand payloads.
func BenchmarkStatementForms(b *testing.B) {
	dsn := testDSN(b)
	ears := listen(b, dsn, "c") // as in life: somebody listens
	defer ears.close()

	const unnest = "SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p"
	forms := []struct {
		name string
		send func(ctx context.Context, conn *pgx.Conn, payloads []string) error
	}{
		{"multi-call, unnamed statement", func(ctx context.Context, conn *pgx.Conn, payloads []string) error {
			return multiCallOn(ctx, conn, pgx.QueryExecModeExec, payloads)
		}},
		{"multi-call, prepared", func(ctx context.Context, conn *pgx.Conn, payloads []string) error {
			return multiCallOn(ctx, conn, pgx.QueryExecModeCacheStatement, payloads)
		}},
		{"unnest, prepared", func(ctx context.Context, conn *pgx.Conn, payloads []string) error {
			_, err := conn.Exec(ctx, unnest, "c", payloads)
			return err
		}},
		{"pipeline of single calls", func(ctx context.Context, conn *pgx.Conn, payloads []string) error {
			batch := &pgx.Batch{}
			for _, p := range payloads {
				batch.Queue("SELECT pg_notify($1, $2)", "c", p)
			}
			return conn.SendBatch(ctx, batch).Close()
		}},
		{"single calls, prepared", func(ctx context.Context, conn *pgx.Conn, payloads []string) error {
			for _, p := range payloads {
				if _, err := conn.Exec(ctx, "SELECT pg_notify($1, $2)", "c", p); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	for _, width := range []int{1, 100, maxWidth} {
		payloads := numbered(width)
		for _, form := range forms {
			b.Run(fmt.Sprintf("%d/%s", width, form.name), func(b *testing.B) {
				conn, err := pgx.Connect(b.Context(), dsn)
				require.NoError(b, err)
				defer func() { _ = conn.Close(context.Background()) }()
				for range 8 { // until the server has settled on a plan
					require.NoError(b, form.send(b.Context(), conn, payloads))
				}
				before := backendCPU(b, conn)
				for b.Loop() {
					if err := form.send(b.Context(), conn, payloads); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(backendCPU(b, conn)-before)/float64(b.N), "server-ns/op")
			})
		}
	}
}

func multiCallOn(ctx context.Context, conn *pgx.Conn, mode pgx.QueryExecMode, payloads []string) error {
	i := widthIndex(len(payloads))
	entries := batchOf("c", payloads...).Entries
	args := fill(append(make([]any, 0, widths[i]+2), mode), "c", entries, widths[i], func(s string) any { return s })
	_, err := conn.Exec(ctx, statements()[i], args...)
	return err
}

// backendCPU is the CPU time of the connection's backend in nanoseconds; 0 where the operating system does not tell.
func backendCPU(b *testing.B, conn *pgx.Conn) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", conn.PgConn().PID()))
	if err != nil {
		return 0
	}
	ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	require.NoError(b, err)
	return ns
}

// Adds by 100 writers while the server stands still: neither stopped cleanly nor refusing, which is the worst of the ways to be away.
func BenchmarkAddWithTheServerFrozen(b *testing.B) {
	silence(b)
	server := dbtest.StartServer(b)
	sender, err := NewSender(SenderConfig{DSN: server.DSN(), DialTimeout: time.Second, ExecTimeout: time.Second})
	require.NoError(b, err)
	defer func() { require.NoError(b, sender.Close()) }()
	require.NoError(b, sender.Send(b.Context(), batchOf("c", "warm")).Err)
	server.Pause()
	defer server.Resume()
	b.ResetTimer()
	benchmarkWriters(b, func(pump *Pump) {
		for channel := range pump.Due() {
			pump.Settle(sender.Send(b.Context(), pump.Take(channel)))
		}
	})
}
