package pgproxy

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func encode(kind byte, body []byte) []byte {
	message := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(message, body...)
}

// However the stream is cut into reads, the same messages come out.
func TestFramerFindsMessagesInAnyChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type message struct {
			kind byte
			body []byte
		}
		var sent []message
		var wire []byte
		for range rapid.IntRange(1, 10).Draw(t, "messages") {
			m := message{
				kind: rapid.SampledFrom([]byte{kindQuery, 'D'}).Draw(t, "kind"),
				body: bytes.Repeat([]byte{'x'}, rapid.SampledFrom([]int{0, 1, 3, 100, keepBytes, keepBytes + 7}).Draw(t, "size")),
			}
			sent = append(sent, m)
			wire = append(wire, encode(m.kind, m.body)...)
		}
		f := framer{keep: func(kind byte) bool { return kind == kindQuery }}
		var got []message
		for len(wire) > 0 {
			chunk := wire[:min(len(wire), rapid.IntRange(1, 5000).Draw(t, "read"))]
			wire = wire[len(chunk):]
			for len(chunk) > 0 {
				n, complete := f.next(chunk)
				require.Positive(t, n)
				chunk = chunk[n:]
				if complete {
					got = append(got, message{f.kind, bytes.Clone(f.body)})
				}
			}
		}
		require.Len(t, got, len(sent))
		for i, m := range sent {
			assert.Equal(t, m.kind, got[i].kind)
			if m.kind == kindQuery {
				assert.Equal(t, len(m.body[:min(len(m.body), keepBytes)]), len(got[i].body))
			} else {
				assert.Empty(t, got[i].body)
			}
		}
	})
}

func TestStartupParameter(t *testing.T) {
	list := []byte("user\x00me\x00application_name\x00svc notify-pump\x00\x00")
	assert.Equal(t, "svc notify-pump", parameter(list, "application_name"))
	assert.Empty(t, parameter(list, "database"))
	assert.Empty(t, parameter(nil, "user"))
}

func TestPipelineIsOneRoundTrip(t *testing.T) {
	var turn turns
	trip, _ := turn.answer()
	assert.False(t, trip, "the start-up answers no turn")
	turn.ask()
	turn.ask()
	trip, _ = turn.answer()
	assert.False(t, trip)
	trip, _ = turn.answer()
	assert.True(t, trip)
}
