package pgnotify

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Reason
	}{
		{nil, ""},
		{state("22023"), ReasonPayload},
		{state("22P05"), ReasonPayload},
		{state("22021"), ReasonPayload},
		{fmt.Errorf("notify: %w", state("22021")), ReasonPayload},
		{state("57P01"), ReasonShutdown},
		{state("57P02"), ReasonShutdown},
		{state("57P03"), ReasonShutdown},
		{state("57P05"), ReasonShutdown},
		{state("57014"), ReasonTimeout},
		{state("25006"), ReasonReadOnly},
		{state("25P02"), ReasonOther},
		{state("53300"), ReasonCapacity},
		{state("53200"), ReasonCapacity},
		{state("54000"), ReasonCapacity},
		{state("54011"), ReasonOther},
		{state("08006"), ReasonConnection},
		{state("26000"), ReasonOther},
		{state("42501"), ReasonOther},
		{state(""), ReasonOther},
		{fmt.Errorf("exec: %w", context.DeadlineExceeded), ReasonTimeout},
		{os.ErrDeadlineExceeded, ReasonTimeout},
		{fmt.Errorf("exec: %w", context.Canceled), ReasonCanceled},
		{io.ErrUnexpectedEOF, ReasonConnection},
		{io.EOF, ReasonConnection},
		{driver.ErrBadConn, ReasonConnection},
		{sql.ErrConnDone, ReasonConnection},
		{net.ErrClosed, ReasonConnection},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, ReasonConnection},
		{errors.New("whatever"), ReasonOther},
	} {
		require.Equal(t, c.want, classify(c.err), "%v", c.err)
	}
}

func TestCheckPayload(t *testing.T) {
	require.NoError(t, CheckPayload(""))
	require.NoError(t, CheckPayload(strings.Repeat("x", 7999)))
	require.NoError(t, CheckPayload(strings.Repeat("€", 2666)))
	require.ErrorContains(t, CheckPayload(strings.Repeat("x", 8000)), "8000 bytes, at most 7999")
	require.ErrorContains(t, CheckPayload(strings.Repeat("€", 2667)), "8001 bytes")
	require.ErrorContains(t, CheckPayload("a\x00b"), "NUL byte at offset 1")
	require.ErrorContains(t, CheckPayload("a\xffb"), "UTF-8")
}

// PostgreSQL is the judge of what it takes: what the check lets through arrives unchanged, what it stops would have failed.
func TestPayloadCheckAgreesWithPostgreSQL(t *testing.T) {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, testDSN(t))
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "LISTEN judged")
	require.NoError(t, err)

	for _, payload := range []string{
		"", " ", "a", "'; DROP TABLE x; --", "$1", "\n\t\x01\x7f", "é€😀", "\u200b", "\ufffd", "\U0010ffff", "\ue000", "\ufeffx",
		strings.Repeat("x", 7999), strings.Repeat("x", 8000), strings.Repeat("€", 2666), strings.Repeat("€", 2667),
		"a\x00", "\x00", "\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xf5\x80\x80\x80",
	} {
		_, err := conn.Exec(ctx, "SELECT pg_notify('judged', $1)", pgx.QueryExecModeExec, payload)
		if CheckPayload(payload) != nil {
			require.Equal(t, ReasonPayload, classify(err), "%.20q", payload)
			continue
		}
		require.NoError(t, err, "%.20q", payload)
		heard, err := conn.WaitForNotification(ctx)
		require.NoError(t, err)
		require.Equal(t, payload, heard.Payload)
	}
}

func FuzzCheckPayload(f *testing.F) {
	for _, s := range []string{"", "a", "a\x00", "\xff", "é", strings.Repeat("x", 7999), strings.Repeat("x", 8000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		fine := len(payload) < 8000 && utf8.ValidString(payload) && !strings.ContainsRune(payload, 0)
		require.Equal(t, fine, CheckPayload(payload) == nil)
	})
}
