package pgnotify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMultiCallText(t *testing.T) {
	require.Equal(t, "SELECT "+snapshotCall+", pg_notify($1,$2)", multiCall(1))
	require.Equal(t, "SELECT "+snapshotCall+", pg_notify($1,$2), pg_notify($1,$3), pg_notify($1,$4)", multiCall(3))
	require.Equal(t, maxWidth, strings.Count(multiCall(maxWidth), "pg_notify($1,"))
}

func TestWidthsAreFewAndWastingLessThanHalf(t *testing.T) {
	require.LessOrEqual(t, len(widths), 12)
	for n := 1; n <= maxWidth; n++ {
		w := widths[widthIndex(n)]
		require.GreaterOrEqual(t, w, n)
		require.Less(t, w, 2*n)
	}
}

func FuzzStatement(f *testing.F) {
	for _, n := range []int{1, 2, 3, 511, 512, 513, 999, 1000} {
		f.Add(n, "channel", "payload")
	}
	f.Fuzz(func(t *testing.T, n int, channel, payload string) {
		n = 1 + int(uint(n)%maxWidth)
		i := widthIndex(n)
		text := statements()[i]

		// Each parameter is named once, $1 in every call; the text depends on nothing but the width.
		var want strings.Builder
		for k := range widths[i] {
			fmt.Fprintf(&want, ", pg_notify($1,$%d)", k+2)
		}
		require.Equal(t, "SELECT "+snapshotCall+want.String(), text)

		entries := make([]Entry, n)
		for k := range entries {
			entries[k].Payload = fmt.Sprint(k, payload)
		}
		args := fill(nil, channel, entries, widths[i], func(s string) string { return s })
		require.Len(t, args, 1+widths[i])
		require.Equal(t, channel, args[0])
		for k, arg := range args[1:] {
			require.Equal(t, entries[min(k, n-1)].Payload, arg)
		}
	})
}
