package pgnotify

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// logged runs f and returns the log lines that it wrote.
func logged(t *testing.T, f func()) []string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, logger.Setup(logger.DefaultConfig(), &out))
	defer func() { _ = logger.Setup(logger.DefaultConfig(), os.Stderr) }()
	f()
	return slices.DeleteFunc(strings.Split(out.String(), "\n"), func(line string) bool { return line == "" })
}

func TestSenderChunksAndPads(t *testing.T) {
	for n, want := range map[int][]int{
		1: {1}, 2: {2}, 3: {4}, 5: {8}, 512: {512}, 513: {1000}, 1000: {1000}, 1001: {1000, 1}, 1664: {1000, 1000}, 2500: {1000, 1000, 512},
	} {
		server := &fakeServer{}
		out := fakeSender(t, server).Send(t.Context(), batchOf("c", numbered(n)...))
		require.NoError(t, out.Err)
		require.Equal(t, n, out.Delivered())
		var got []int
		for _, s := range server.statements {
			got = append(got, s.Width)
		}
		require.Equal(t, want, got, "%d payloads", n)
		require.Len(t, server.hears(), n, "filling must not be heard")
	}
}

func TestSenderSendsNothingForAnEmptyBatch(t *testing.T) {
	server := &fakeServer{}
	out := fakeSender(t, server).Send(t.Context(), Batch{Channel: "c"})
	require.Equal(t, Outcome{Batch: Batch{Channel: "c"}}, out)
	require.Zero(t, server.opened)
}

// Whatever is not a payload's fault keeps the rest of the batch, in order, and costs the connection.
func TestSenderKeepsTheBatchAndDropsTheConnection(t *testing.T) {
	for _, fault := range []error{
		state("57P01"), state("57P05"), state("57014"), state("25006"), state("53300"), state("53200"), state("54000"),
		state("26000"), state("08006"), state("42501"), state("XX000"),
		context.DeadlineExceeded, driver.ErrBadConn, errors.New("unexpected EOF"),
	} {
		t.Run(fault.Error(), func(t *testing.T) {
			calls := 0
			server := &fakeServer{}
			server.exec = func(fakeStatement) error {
				if calls++; calls == 2 {
					return fault
				}
				return nil
			}
			s := fakeSender(t, server)
			payloads := numbered(2500)
			out := s.Send(t.Context(), batchOf("c", payloads...))
			require.ErrorIs(t, out.Err, fault)
			require.Equal(t, classify(fault), out.Reason)
			require.Equal(t, payloads[1000:], payloadsOf(out.Undelivered))
			require.Equal(t, 1000, out.Delivered())
			require.Zero(t, out.Rejected)
			require.Zero(t, s.db.Stats().OpenConnections, "the connection must be gone")
			require.Zero(t, server.open)

			out = s.Send(t.Context(), Batch{Channel: "c", Entries: out.Undelivered})
			require.NoError(t, out.Err)
			require.Equal(t, 2, server.opened)
			require.Equal(t, 1, s.db.Stats().OpenConnections)
			require.Zero(t, s.db.Stats().InUse)
			require.Len(t, server.hears(), 2500)
		})
	}
}

func TestSenderKeepsTheBatchWhenItCannotConnect(t *testing.T) {
	// 22023 is what a server says to an invalid setting in the DSN: no payload is to blame.
	for _, fault := range []error{state("57P03"), state("53300"), state("22023"), errors.New("connection refused")} {
		server := &fakeServer{dial: func() error { return fault }}
		out := fakeSender(t, server).Send(t.Context(), batchOf("c", "a", "b\x00", "d"))
		require.ErrorIs(t, out.Err, fault)
		require.ErrorContains(t, out.Err, "connect")
		require.NotEqual(t, ReasonPayload, out.Reason)
		require.Equal(t, []string{"a", "d"}, payloadsOf(out.Undelivered))
		require.Equal(t, 1, out.Rejected, "a payload that is bad for certain need not wait for a server")
	}
}

// A payload that only the server can judge (say, a character that its encoding lacks) is found by halving.
func TestSenderSinglesOutWhatTheServerRefuses(t *testing.T) {
	for _, bad := range [][]int{{0}, {999}, {500}, {0, 999}, {10, 11, 12, 700}, {1000}, {1499}} {
		payloads := numbered(1500)
		for _, i := range bad {
			payloads[i] += " bad"
		}
		server := &fakeServer{exec: func(s fakeStatement) error {
			if slices.ContainsFunc(s.Payloads, func(p string) bool { return strings.HasSuffix(p, "bad") }) {
				return state("22P05")
			}
			return nil
		}}
		s := fakeSender(t, server)
		var out Outcome
		lines := logged(t, func() { out = s.Send(t.Context(), batchOf("c", payloads...)) })
		require.NoError(t, out.Err)
		require.Equal(t, len(bad), out.Rejected)
		require.Equal(t, 1500-len(bad), out.Delivered())
		require.Len(t, lines, len(bad))
		require.Len(t, server.hears(), 1500-len(bad))
		require.Equal(t, 1, server.opened, "the connection is as good as before")
		require.LessOrEqual(t, len(server.statements), 2+20*len(bad), "two more for each halving")
	}
}

func TestSenderStopsHalvingWhenTheConnectionBreaks(t *testing.T) {
	server := &fakeServer{}
	server.exec = func(s fakeStatement) error {
		switch {
		case len(server.statements) == 6:
			return state("57P01")
		case slices.Contains(s.Payloads, "bad"):
			return state("22P05")
		}
		return nil
	}
	payloads := append(append(numbered(20), "bad"), numbered(40)[20:]...)
	out := fakeSender(t, server).Send(t.Context(), batchOf("c", payloads...))
	require.Error(t, out.Err)
	require.Equal(t, ReasonShutdown, out.Reason)
	done := len(payloads) - len(out.Undelivered)
	require.Equal(t, payloads[done:], payloadsOf(out.Undelivered))
	require.Len(t, server.hears(), done-out.Rejected)
}

// Poison that the check knows costs no statement at all.
func TestSenderRejectsWhatPostgreSQLWillNeverTake(t *testing.T) {
	poison := []string{strings.Repeat("x", 8000), strings.Repeat("€", 2667), "nul\x00", "bad\xff"}
	payloads := append(append(numbered(250), poison...), numbered(500)[250:]...)
	payloads = append(payloads, strings.Repeat("y", 7999))
	server := &fakeServer{}
	s := fakeSender(t, server)
	var out Outcome
	lines := logged(t, func() { out = s.Send(t.Context(), batchOf("runs", payloads...)) })
	require.NoError(t, out.Err)
	require.Equal(t, 4, out.Rejected)
	require.Equal(t, 501, out.Delivered())
	require.Len(t, server.statements, 1)
	require.Contains(t, server.hears(), "runs "+strings.Repeat("y", 7999))
	require.Len(t, lines, 4)
	for _, line := range lines {
		require.Contains(t, line, "notification on runs rejected")
		require.Less(t, len(line), 1000, "a log line quotes the front of a payload only")
	}

	only := s.Send(t.Context(), batchOf("runs", "\x00"))
	require.NoError(t, only.Err)
	require.Equal(t, 1, only.Rejected)
	require.Len(t, server.statements, 1)
}

func TestSenderDoesNotFloodTheLogWithRejections(t *testing.T) {
	s := fakeSender(t, &fakeServer{})
	payloads := numbered(1000)
	for i := range payloads {
		payloads[i] += "\x00"
	}
	var out Outcome
	lines := logged(t, func() { out = s.Send(t.Context(), batchOf("c", payloads...)) })
	require.Equal(t, 1000, out.Rejected)
	require.LessOrEqual(t, len(lines), lineBurst+2)
}

// A borrowed pool is not kept: with one connection in all, others still get their turn between two batches.
func TestSenderHoldsNothingOfABorrowedPoolBetweenBatches(t *testing.T) {
	server := &fakeServer{}
	db := server.pool(t)
	db.SetMaxOpenConns(1)
	s, err := NewSenderOn(db, SenderConfig{})
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, s.Send(t.Context(), batchOf("c", "a")).Err)
		require.Zero(t, db.Stats().InUse)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	require.Equal(t, 1, server.opened)
	require.NoError(t, s.Close())
	conn, err := db.Conn(t.Context())
	require.NoError(t, err, "a borrowed pool is not ours to close")
	require.NoError(t, conn.Close())
}

// A pool whose connections are all held elsewhere is waited for as long as for a dial, not for ever.
func TestSenderNamesTheTimeoutThatRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{}
		db := server.pool(t)
		db.SetMaxOpenConns(1)
		held, err := db.Conn(t.Context())
		require.NoError(t, err)
		s, err := NewSenderOn(db, SenderConfig{DialTimeout: 3 * time.Second, ExecTimeout: 7 * time.Second})
		require.NoError(t, err)

		start := time.Now()
		out := s.Send(t.Context(), batchOf("c", "a"))
		require.Equal(t, 3*time.Second, time.Since(start))
		require.ErrorIs(t, out.Err, context.DeadlineExceeded)
		require.ErrorContains(t, out.Err, "no connection within 3s")
		require.Equal(t, ReasonTimeout, out.Reason)
		require.NoError(t, held.Close())

		server.exec = func(s fakeStatement) error { <-s.Ctx.Done(); return s.Ctx.Err() }
		start = time.Now()
		out = s.Send(t.Context(), batchOf("c", "a"))
		require.Equal(t, 7*time.Second, time.Since(start))
		require.ErrorContains(t, out.Err, "no answer within 7s")

		given, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(2 * time.Second)
		out = s.Send(given, batchOf("c", "a"))
		require.ErrorIs(t, out.Err, context.DeadlineExceeded)
		require.NotContains(t, out.Err.Error(), "within", "that was the caller's limit, not ours")
		require.NoError(t, db.Close())
	})
}

func TestSenderConfigIsChecked(t *testing.T) {
	_, err := NewSender(SenderConfig{DSN: "host=x", DialTimeout: -1})
	require.ErrorContains(t, err, "DialTimeout")
	_, err = NewSender(SenderConfig{DSN: "host=x", ExecTimeout: -time.Second})
	require.ErrorContains(t, err, "ExecTimeout is -1s")
	_, err = NewSender(SenderConfig{DSN: "port=none"})
	require.ErrorContains(t, err, "dsn")
	_, err = NewSenderOn(nil, SenderConfig{ExecTimeout: -1})
	require.ErrorContains(t, err, "ExecTimeout")
	require.Equal(t, SenderConfig{DialTimeout: DefaultDialTimeout, ExecTimeout: DefaultExecTimeout}, SenderConfig{}.WithDefaults())
}

// Long weather of each kind: nothing is given up, each attempt costs one connection, all arrives in the end.
func TestSenderOutlastsLongFailures(t *testing.T) {
	for _, code := range []string{"54000", "57014", "53300", "57P03"} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			failing := func() error {
				if attempts++; attempts <= 1000 {
					return state(code)
				}
				return nil
			}
			server := &fakeServer{}
			if code == "53300" || code == "57P03" { // said to who connects
				server.dial = failing
			} else {
				server.exec = func(fakeStatement) error { return failing() }
			}
			pump, err := NewPump("c")
			require.NoError(t, err)
			s := fakeSender(t, server)
			for _, p := range numbered(1500) {
				pump.Add("c", p)
			}
			lines := logged(t, func() {
				start := time.Now()
				for channel := range pump.Due() {
					pump.Settle(s.Send(t.Context(), pump.Take(channel)))
					requireSum(t, pump.Stats("c").PendingStats)
					if pump.Stats("c").Pending == 0 {
						break
					}
				}
				require.Greater(t, time.Since(start), 40*time.Minute, "a thousand waits of up to 5 s")
				require.Less(t, time.Since(start), 90*time.Minute)
			})
			require.LessOrEqual(t, len(lines), 12, "a thousand failures give a handful of lines")
			require.Contains(t, lines[0], fmt.Sprintf("SQLSTATE %s", code))
			require.Contains(t, lines[len(lines)-1], "sent again")

			stats := pump.Stats("c")
			require.EqualValues(t, 1500, stats.Delivered)
			require.Zero(t, stats.Failures)
			require.Len(t, server.hears(), 1500)
			require.Equal(t, 1, s.db.Stats().OpenConnections)
			require.Equal(t, 1, server.open)
			require.NoError(t, s.db.Close())
		})
	}
}

// The answer to a commit gets lost: the receivers hear it twice, the count says once.
func TestSenderCountsOnceWhatItSendsTwice(t *testing.T) {
	server := &fakeServer{}
	server.answer = func(fakeStatement) error {
		if len(server.statements) == 1 {
			return errors.New("connection reset by peer")
		}
		return nil
	}
	s := fakeSender(t, server)
	p := NewPending("c")
	p.Add("a")
	p.Settle(s.Send(t.Context(), p.Take(0)))
	p.Settle(s.Send(t.Context(), p.Take(0)))
	require.Equal(t, []string{"c a", "c a"}, server.hears())
	require.EqualValues(t, 1, p.Stats().Delivered)
	requireSum(t, p.Stats())
}
