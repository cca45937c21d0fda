package pgproxy

import "encoding/binary"

// keepBytes is how much of a message's body is kept for those who look into it: enough to recognise a statement.
const keepBytes = 4096

// framer cuts a stream of bytes, as it comes, into protocol messages. It keeps the head of those bodies that keep asks for and
// skips the others, so that a large row costs no memory.
type framer struct {
	keep func(kind byte) bool // nil: none

	kind byte   // of the current message
	body []byte // kept part of its body; valid until the next call

	head   [5]byte
	headed int // bytes of head read
	left   int // bytes of the body to come, once the head is complete
}

// next consumes bytes of p up to the end of the current message, and says how many, and whether the message is complete.
func (f *framer) next(p []byte) (n int, complete bool) {
	if f.headed < len(f.head) {
		if f.headed == 0 {
			f.body = f.body[:0]
		}
		n = copy(f.head[f.headed:], p)
		f.headed += n
		if f.headed < len(f.head) {
			return n, false
		}
		f.kind = f.head[0]
		f.left = max(int(binary.BigEndian.Uint32(f.head[1:]))-4, 0)
	}
	take := min(f.left, len(p)-n)
	if take > 0 && f.keep != nil && f.keep(f.kind) {
		f.body = append(f.body, p[n:n+min(take, keepBytes-len(f.body))]...)
	}
	f.left -= take
	n += take
	if f.left > 0 {
		return n, false
	}
	f.headed = 0
	return n, true
}
