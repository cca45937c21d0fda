package fanout

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two notifiers, two channels, three listeners: 0 and 2 on channel 0, 1 on channel 1.
func judged(change func(h []*hearing)) Verdict {
	sent := [][]int64{{3, 2}, {2, 0}}
	var hearings []*hearing
	for l := range 3 {
		h := &hearing{listener: l, channel: l % 2, by: make([]tracker, 2), ended: true}
		for notifier := range sent {
			for n := range sent[notifier][h.channel] {
				h.by[notifier].hear(n)
			}
		}
		hearings = append(hearings, h)
	}
	change(hearings)
	return judge(hearings, sent)
}

func TestVerdictOfAGoodRun(t *testing.T) {
	v := judged(func([]*hearing) {})
	assert.Equal(t, Verdict{Expected: 12, Received: 12}, v)
	require.NoError(t, v.Err())
}

func TestVerdictsOfBadRuns(t *testing.T) {
	for want, change := range map[string]func(h []*hearing){
		"1 lost":         func(h []*hearing) { h[2].by[0] = *hears(0, 2) },
		"1 heard twice":  func(h []*hearing) { h[0].by[1].hear(0) },
		"1 out of order": func(h []*hearing) { h[1].by[0] = *hears(1, 0) },
		"2 never sent":   func(h []*hearing) { h[1].by[1].hear(0); h[1].foreign++ },
		"5 lost; 1 listeners did not come to the end; listener 0: cut off": func(h []*hearing) {
			h[0].by, h[0].ended, h[0].err = make([]tracker, 2), false, errors.New("cut off")
		},
	} {
		assert.EqualError(t, judged(change).Err(), want)
	}
}

func TestARunWithoutPayloadsProvesNothing(t *testing.T) {
	h := &hearing{by: make([]tracker, 1), ended: true}
	require.EqualError(t, judge([]*hearing{h}, [][]int64{{0}}).Err(), "nothing was sent")
}
