package pgnotify

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mustParse(t testing.TB, text string) *snapshot {
	t.Helper()
	s, err := parseSnapshot(text)
	require.NoError(t, err)
	return s
}

func TestSnapshotSeesWhatHadEnded(t *testing.T) {
	s := mustParse(t, "100:110:103,107")
	for xid, want := range map[uint32]bool{
		0: false, 1: false, 2: false, // not transactions
		3: true, 99: true, 100: true, 102: true, 103: false, 104: true, 107: false, 109: true,
		110: false, 111: false, math.MaxInt32: false,
	} {
		assert.Equal(t, want, s.sees(xid), "%d", xid)
	}
}

func TestSnapshotAcrossTheEndOfAnEpoch(t *testing.T) {
	const epoch = 1 << 32
	s := mustParse(t, fmt.Sprintf("%d:%d:%d,%d", 3*epoch-10, 3*epoch+20, 3*epoch-5, 3*epoch+5))
	for xid, want := range map[uint32]bool{
		math.MaxUint32 - 100: true, math.MaxUint32 - 4: false, math.MaxUint32 - 3: true, // 3·2³²−5 is …FFFB
		4: true, 5: false, 6: true, 19: true, 20: false, 21: false,
	} {
		assert.Equal(t, want, s.sees(xid), "%d", xid)
	}
}

func TestSnapshotThatWasCutKnowsNothingBehindTheCut(t *testing.T) {
	var open []string
	for i := range 2000 {
		open = append(open, fmt.Sprint(1000+2*i))
	}
	text := "1000:9000:" + strings.Join(open, ",")
	s := mustParse(t, text[:maxSnapshotBytes])
	last := s.open[len(s.open)-1]
	assert.Less(t, last, uint64(4998))
	assert.True(t, s.sees(uint32(last-1)))
	assert.False(t, s.sees(uint32(last)))
	assert.False(t, s.sees(uint32(last+1)), "it may be open")
	assert.False(t, s.sees(8999))
}

func TestSnapshotRefusesWhatIsNone(t *testing.T) {
	for _, text := range []string{"", "1", "1:2", "x:2:", "1:x:", "1:2:x", "1:2:3,", "1:-2:"} {
		_, err := parseSnapshot(text)
		assert.Error(t, err, "%q", text)
	}
	_, _, err := parseSent("1:2:")
	assert.Error(t, err)
	at, s, err := parseSent("1700000000000001 5:7:6")
	require.NoError(t, err)
	assert.Equal(t, time.UnixMicro(1700000000000001), at)
	assert.Equal(t, &snapshot{xmin: 5, xmax: 7, open: []uint64{6}}, s)
}

// The server's own opinion, of every transaction around a snapshot with some open ones.
func TestSnapshotAgreesWithTheServer(t *testing.T) {
	dsn := testDSN(t)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	main := connect()
	for range 5 {
		for range 3 {
			_, err := main.Exec(t.Context(), "SELECT pg_current_xact_id()")
			require.NoError(t, err)
		}
		tx, err := connect().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT pg_current_xact_id()")
		require.NoError(t, err)
	}
	var text string
	require.NoError(t, main.QueryRow(t.Context(), "SELECT pg_current_snapshot()").Scan(&text))
	s := mustParse(t, text)
	require.NotEmpty(t, s.open)
	rows, err := main.Query(t.Context(), `SELECT x, pg_visible_in_snapshot(x::text::xid8, $1) FROM generate_series($2::bigint, $3) AS x`,
		text, int64(s.xmin)-3, int64(s.xmax)+3)
	require.NoError(t, err)
	for rows.Next() {
		var xid int64
		var visible bool
		require.NoError(t, rows.Scan(&xid, &visible))
		assert.Equal(t, visible, s.sees(uint32(xid)), "%d in %s", xid, text)
	}
	require.NoError(t, rows.Err())
}
