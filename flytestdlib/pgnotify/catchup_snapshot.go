package pgnotify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A catch-up finds changed rows. Most of them were announced, and their watchers have read them; announcing them
// all once more would double the work of every watcher. Which can be left out? Time cannot tell:
//
//	change 1 commits ─ notification 1 sent ─────── received
//	                 change 2 stamps its row ───────────────── commits, and its process dies
//
// Notification 1 arrives after the stamp of change 2, and yet no watcher has read change 2. That is an action that goes
// through its phases quickly while its process is killed: exactly what the catch-up is for.
//
// PostgreSQL can tell. Each statement of a Sender also announces, on snapshotChannel and in front of its payloads, the snapshot that it
// runs under. A row version whose transaction this snapshot sees was committed before the notification was sent, so
// whoever read after receiving it has read that version or a later one. Everything else is announced again: a row whose
// payload was not heard of, one that committed later, and everything that a sender without snapshots has sent.

// snapshotChannel carries pg_current_snapshot() between Senders and Listeners. No user of this package sees it.
const snapshotChannel = "pgnotify_snapshot"

// maxSnapshotBytes is where a snapshot's text is cut, well below what a notification can carry. It has room for some
// hundreds of open transactions.
const maxSnapshotBytes = 7000

// snapshotCall is the expression that a Sender's statement begins with: the server's clock, by which a Listener knows how long
// notifications are under way, and the snapshot.
var snapshotCall = fmt.Sprintf(
	"pg_notify('%s', concat((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, ' ', left(pg_current_snapshot()::text, %d)))",
	snapshotChannel, maxSnapshotBytes)

// parseSent reads what a snapshotCall has sent: when, by the server's clock, and under which snapshot.
func parseSent(text string) (at time.Time, s *snapshot, err error) {
	clock, text, _ := strings.Cut(text, " ")
	micros, err := strconv.ParseInt(clock, 10, 64)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("clock of a sender's statement: %w", err)
	}
	s, err = parseSnapshot(text)
	return time.UnixMicro(micros), s, err
}

// snapshot knows which transactions had ended at one instant: all below xmin, none from xmax on, and in between those that
// are not in open. It does not know subtransactions, whose numbers never appear in open: a row that was written behind a SAVEPOINT
// may be taken for committed while its transaction is still open.
type snapshot struct {
	xmin, xmax uint64
	open       []uint64 // ascending
}

// parseSnapshot reads the text form of pg_snapshot, "xmin:xmax:open,open,…", cut at maxSnapshotBytes or not.
func parseSnapshot(text string) (*snapshot, error) {
	fields := strings.SplitN(text, ":", 3)
	if len(fields) != 3 {
		return nil, fmt.Errorf("snapshot %.40q has %d parts, not 3", text, len(fields))
	}
	xmin, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("snapshot %.40q: xmin: %w", text, err)
	}
	xmax, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("snapshot %.40q: xmax: %w", text, err)
	}
	s := &snapshot{xmin: xmin, xmax: xmax}
	if fields[2] == "" {
		return s, nil
	}

	numbers := strings.Split(fields[2], ",")
	cut := len(text) >= maxSnapshotBytes
	if cut {
		numbers = numbers[:len(numbers)-1] // perhaps half a number
	}
	s.open = make([]uint64, len(numbers))
	for i, number := range numbers {
		if s.open[i], err = strconv.ParseUint(number, 10, 64); err != nil {
			return nil, fmt.Errorf("snapshot %.40q: open transaction: %w", text, err)
		}
	}
	if cut { // nothing is known above the last number that is complete
		s.xmax = s.xmin
		if n := len(s.open); n > 0 {
			s.xmax = s.open[n-1]
		}
	}
	return s, nil
}

// firstNormalXID is the first number that a transaction can have; those below mean "none", "bootstrap" and "frozen".
const firstNormalXID = 3

// sees tells whether the transaction that wrote a row had ended. xid is the row's xmin, 32 bits of which the epoch is not
// known; as PostgreSQL does, it is taken for the nearest number with these low bits.
func (s *snapshot) sees(xid uint32) bool {
	if xid < firstNormalXID {
		return false
	}
	distance := int32(xid - uint32(s.xmax))
	if distance >= 0 {
		return false
	}
	full := s.xmax + uint64(int64(distance))
	if full < s.xmin {
		return true
	}
	_, open := slices.BinarySearch(s.open, full)
	return !open
}
