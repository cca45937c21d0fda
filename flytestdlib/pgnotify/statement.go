package pgnotify

import (
	"math/bits"
	"strconv"
	"strings"
	"sync"
)

// maxWidth is the most calls in one statement. PostgreSQL takes up to 1,664 entries in a select list; a thousand leaves
// room below that and is wide enough for the round trip to be a small part of the statement's time.
const maxWidth = 1000

// widths are the only numbers of calls that a statement ever has: each width is a prepared statement of its own that costs the
// backend memory and, the first time, parsing, so there are eleven of them and not a thousand.
var widths = [...]int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, maxWidth}

// widthIndex returns the index in widths of the narrowest statement that takes n payloads, 1 ≤ n ≤ maxWidth.
func widthIndex(n int) int {
	return bits.Len(uint(n - 1))
}

// multiCall returns SELECT pg_notify($1,$2), pg_notify($1,$3), … with width calls, $1 being the channel. In front of them it says
// under which snapshot they are sent, for the listeners' catch-up: see snapshot.
func multiCall(width int) string {
	head := "SELECT " + snapshotCall + ", pg_notify($1,$2)"
	var b strings.Builder
	b.Grow(len(head) + width*len(", pg_notify($1,$1000)"))
	b.WriteString(head)
	for i := 1; i < width; i++ {
		b.WriteString(", pg_notify($1,$")
		b.WriteString(strconv.Itoa(i + 2))
		b.WriteByte(')')
	}
	return b.String()
}

// statements holds the text for each of widths: about 50 KB, built once.
var statements = sync.OnceValue(func() (texts [len(widths)]string) {
	for i, width := range widths {
		texts[i] = multiCall(width)
	}
	return texts
})

// fill appends to args what the statement of the given width wants: the channel, the payloads, and the last payload again until
// the width is reached. The repeats are never heard: equal notifications of one transaction are delivered once.
func fill[T any](args []T, channel string, entries []Entry, width int, value func(string) T) []T {
	args = append(args, value(channel))
	var last T
	for _, e := range entries {
		last = value(e.Payload)
		args = append(args, last)
	}
	for range width - len(entries) {
		args = append(args, last)
	}
	return args
}
