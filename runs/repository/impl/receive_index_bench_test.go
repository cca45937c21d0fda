package impl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// withoutCatchUpIndexesSQL takes back what the catch-up changed in the schema: its two indexes, and the entries for events of no error that
// the index of error_kind had before.
const withoutCatchUpIndexesSQL = `
DROP INDEX idx_actions_updated_at, idx_action_events_created_at, idx_action_events_error_kind;
CREATE INDEX idx_action_events_error_kind ON action_events (error_kind)`

// What the catch-up's changes to the indexes cost the writes that carry the load: the same batches on a database with them and on one
// without, in random order batch by batch, on 50,000 actions. The events are of no error, as nearly all are. The server is as the
// environment gives it; a round trip to a server on the same machine is the worst case, since any network in between makes the share smaller.
//
// index-cost-% is the median of the paired ratios of the times, with the quartiles beside it; wal-cost-% is how much more the server writes
// to its log.
func BenchmarkCatchUpIndexes(b *testing.B) {
	const rows, batch = 50_000, 20
	open := func(indexed bool) *actionRepo {
		r := newTestRepo(b, WithNotifyConfig(NotifyConfig{Mode: NotifyModeOff, CatchUpInterval: time.Hour}))
		if !indexed {
			require.NoError(b, r.db.Exec(withoutCatchUpIndexesSQL).Error)
		}
		addActions(b, r, "run", rows)
		require.NoError(b, r.db.Exec("VACUUM ANALYZE actions").Error)
		return r
	}
	phases := []common.ActionPhase{2, 3, 4, 6} // FAILED may go back to any
	writes := map[string]func(r *actionRepo, round, i int){
		"UpdateActionPhase": func(r *actionRepo, round, i int) {
			id := actionID("run", fmt.Sprint("a", (round*batch+i)%rows))
			require.NoError(b, r.UpdateActionPhase(b.Context(), id, phases[round*batch/rows%len(phases)], 1, 0, nil, nil))
		},
		// Ten events in a call, as the load test sends them.
		"InsertEvents": func(r *actionRepo, round, i int) {
			var events []*models.ActionEvent
			for k := range 10 {
				n := (round*batch+i)*10 + k
				events = append(events, newEvent(b, actionID("run", fmt.Sprint("a", n%rows)), uint32(n/rows+1), running, 0))
			}
			require.NoError(b, r.InsertEvents(b.Context(), events))
		},
	}
	for name, write := range writes {
		b.Run(name, func(b *testing.B) {
			repos := [2]*actionRepo{open(false), open(true)}
			var ratios []float64
			var wal [2]int64
			round := 0
			for b.Loop() {
				var took [2]time.Duration
				for _, side := range rand.Perm(2) {
					before := walPosition(b, repos[side])
					begin := time.Now()
					for i := range batch {
						write(repos[side], round, i)
					}
					took[side] = time.Since(begin)
					wal[side] += walPosition(b, repos[side]) - before
				}
				ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
				round++
			}
			slices.Sort(ratios)
			at := func(q int) float64 { return 100 * (ratios[min(len(ratios)*q/4, len(ratios)-1)] - 1) }
			b.ReportMetric(at(2), "index-cost-%")
			b.ReportMetric(at(1), "quartile1-%")
			b.ReportMetric(at(3), "quartile3-%")
			b.ReportMetric(100*(float64(wal[1])/float64(wal[0])-1), "wal-cost-%")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(round)/2/batch, "µs/write")
		})
	}
}

func walPosition(b *testing.B, r *actionRepo) (position int64) {
	b.Helper()
	require.NoError(b, r.db.Raw("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&position).Error)
	return position
}
