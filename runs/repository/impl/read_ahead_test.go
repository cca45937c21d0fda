package impl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// shelf is a table in memory, read through a readAhead. Attempts counts the writes of a row.
type shelf struct {
	*readAhead
	rows  map[string]*models.Action
	large map[string]bool // there, but not to be had in common

	fetches [][]string           // what each statement that read in common asked for
	fail    int                  // so many of the next statements fail
	during  func(asked []string) // called when a statement has read and not yet answered
	singles []string             // what was read by itself
	failOne error                // how that fails
}

func newShelf(hears bool) *shelf {
	s := &shelf{rows: map[string]*models.Action{}, large: map[string]bool{}, during: func([]string) {}}
	s.readAhead = newReadAhead(s.readCommon)
	s.hears = hears
	return s
}

func (s *shelf) write(payload string) {
	row := &models.Action{Name: payload}
	if before := s.rows[payload]; before != nil {
		row.Attempts = before.Attempts + 1
	}
	s.rows[payload] = row
}

func (s *shelf) readCommon(_ context.Context, asked []string) (map[string]*models.Action, error) {
	s.fetches = append(s.fetches, slices.Clone(asked))
	found := map[string]*models.Action{}
	for _, payload := range asked {
		if row := s.rows[payload]; row != nil && !s.large[payload] {
			found[payload] = row
		}
	}
	s.during(asked)
	if s.fail > 0 {
		s.fail--
		return found, errors.New("the connection broke")
	}
	return found, nil
}

func (s *shelf) readOne(payload string) func() (*models.Action, error) {
	return func() (*models.Action, error) {
		s.singles = append(s.singles, payload)
		return s.rows[payload], s.failOne
	}
}

// ask is what GetAction does for a watcher.
func (s *shelf) ask(t assert.TestingT, payload string) *models.Action {
	row, err := s.read(context.Background(), payload, s.readOne(payload))
	assert.NoError(t, err)
	return row
}

// arrive writes rows, and lets each be heard of.
func (s *shelf) arrive(payloads ...string) {
	for _, payload := range payloads {
		s.write(payload)
		s.note(payload)
	}
}

func numbered(from, to int) (payloads []string) {
	for i := from; i < to; i++ {
		payloads = append(payloads, fmt.Sprint("a", i))
	}
	return payloads
}

func TestABurstIsReadAHundredRowsAtATime(t *testing.T) {
	s := newShelf(true)
	burst := numbered(0, 5*readAheadRows)
	s.arrive(burst...)
	for _, payload := range burst {
		require.Same(t, s.rows[payload], s.ask(t, payload))
	}
	assert.Len(t, s.fetches, 5)
	assert.Equal(t, burst, slices.Concat(s.fetches...), "each once, in the order in which they came")
	assert.Empty(t, s.singles)
	assert.Empty(t, s.heard)
	assert.Empty(t, s.ready)
}

// A watcher that is behind is told in the order of the last arrival.
func TestWhatArrivesAgainGoesToTheEnd(t *testing.T) {
	s := newShelf(true)
	s.arrive(numbered(0, readAheadRows+10)...)
	s.arrive(numbered(0, 10)...)
	s.ask(t, "a10")
	assert.Equal(t, [][]string{numbered(10, readAheadRows+10)}, s.fetches)
	for _, payload := range numbered(11, readAheadRows+10) {
		s.ask(t, payload)
	}
	assert.Len(t, s.fetches, 1)
	s.ask(t, "a0")
	assert.Equal(t, numbered(0, 10), s.fetches[1])
}

func TestWhatWasReadIsNotGivenForALaterArrival(t *testing.T) {
	s := newShelf(true)
	t.Run("while it is ready", func(t *testing.T) {
		s.arrive("a", "b")
		s.ask(t, "a")
		s.arrive("b")
		assert.Same(t, s.rows["b"], s.ask(t, "b"))
	})
	t.Run("while it is read", func(t *testing.T) {
		s.arrive("a", "b")
		s.during = func([]string) { s.arrive("b"); s.during = func([]string) {} }
		s.ask(t, "a")
		assert.Same(t, s.rows["b"], s.ask(t, "b"))
	})
	t.Run("while it is read for its own sake", func(t *testing.T) {
		s.arrive("a")
		s.during = func([]string) { s.arrive("a"); s.during = func([]string) {} }
		s.ask(t, "a")
		assert.Same(t, s.rows["a"], s.ask(t, "a"))
	})
	t.Run("after it was given", func(t *testing.T) {
		s.arrive("a", "b")
		s.ask(t, "a")
		s.ask(t, "b")
		s.arrive("a", "b")
		assert.Same(t, s.rows["a"], s.ask(t, "a"))
		assert.Same(t, s.rows["b"], s.ask(t, "b"))
	})
	t.Run("that nobody has asked for when the next is read", func(t *testing.T) {
		s.arrive("a", "b")
		s.during = func([]string) { s.arrive("b"); s.during = func([]string) {} }
		s.ask(t, "a")
		s.ask(t, "c") // and b
		s.arrive("b")
		assert.Same(t, s.rows["b"], s.ask(t, "b"))
	})
}

// A payload that arrives twice before its turn may be asked for twice.
func TestARowMayBeGivenTwice(t *testing.T) {
	s := newShelf(true)
	s.arrive("a", "b")
	for range 3 {
		assert.Same(t, s.rows["a"], s.ask(t, "a"))
		assert.Same(t, s.rows["b"], s.ask(t, "b"))
	}
	assert.Len(t, s.fetches, 1)
}

// It is held by those who were given it, and by nobody when they have done with it.
func TestARowThatWasGivenIsNotHeld(t *testing.T) {
	s := newShelf(true)
	s.arrive("a")
	s.ask(t, "a")
	s.rows["a"] = nil
	given := s.given["a"].row
	require.Eventually(t, func() bool {
		runtime.GC()
		return given.Value() == nil
	}, eventually, poll)
	s.write("a")
	assert.Same(t, s.rows["a"], s.ask(t, "a"))
}

// Without being told of arrivals it cannot know what is out of date.
func TestWhoHearsOfNothingReadsEachTime(t *testing.T) {
	s := newShelf(false)
	for range 3 {
		s.write("a")
		assert.Same(t, s.rows["a"], s.ask(t, "a"))
	}
	assert.Equal(t, [][]string{{"a"}, {"a"}, {"a"}}, s.fetches)
	assert.Empty(t, s.given)
	assert.Empty(t, s.reading)
}

// Whatever becomes of the listener: nobody is shown anything that is older.
func TestARowIsNotUsedWhenItIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(true)
		s.arrive("a", "b", "c")
		s.during = func([]string) { time.Sleep(time.Second) } // counts from the beginning of the reading on
		s.ask(t, "a")
		s.during = func([]string) {}
		for payload := range s.rows {
			s.write(payload) // without being heard of
		}
		time.Sleep(readAheadAge - time.Second)
		assert.Zero(t, s.ask(t, "a").Attempts)
		assert.Zero(t, s.ask(t, "b").Attempts)
		require.Len(t, s.fetches, 1)
		time.Sleep(time.Nanosecond)
		for payload, row := range s.rows {
			assert.Same(t, row, s.ask(t, payload))
		}
	})
}

// What is ready and not asked for has its time, and then makes room.
func TestNoMoreIsReadAheadThanThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(true)
		s.arrive(numbered(0, 3*readAheadRows)...)
		s.ask(t, "a0")
		for i := range 10 {
			s.ask(t, fmt.Sprint("x", i))
			require.LessOrEqual(t, len(s.ready), readAheadRows-1)
		}
		for _, asked := range s.fetches[1:] {
			require.Len(t, asked, 1)
		}
		time.Sleep(readAheadAge + 1)
		s.ask(t, "x0")
		assert.Len(t, s.fetches[len(s.fetches)-1], readAheadRows)
		assert.Len(t, s.ready, readAheadRows-1)
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	s := newShelf(true)
	for _, payload := range numbered(0, readAheadPayloads+100) {
		s.note(payload)
		s.note(payload)
	}
	assert.Len(t, s.heard, readAheadPayloads)
	assert.Equal(t, readAheadPayloads, s.queue.Len())
	last := fmt.Sprint("a", readAheadPayloads+99)
	s.write(last)
	assert.Same(t, s.rows[last], s.ask(t, last), "read when its turn comes")

	s = newShelf(true)
	s.arrive(numbered(0, 2*readAheadGiven)...)
	for _, payload := range numbered(0, 2*readAheadGiven) {
		s.ask(t, payload)
		require.LessOrEqual(t, len(s.given), readAheadGiven)
	}
	assert.Len(t, s.fetches, 2*readAheadGiven/readAheadRows)
}

func TestWhatArrivedBeforeTheWatcherIsReadAheadToo(t *testing.T) {
	s := newShelf(true)
	for _, payload := range numbered(0, 60) {
		s.write(payload)
	}
	s.note("a50")
	s.note("a40") // again
	s.note("a51")
	calls := 0
	s.recent = func() []string {
		calls++
		return numbered(0, 52)
	}
	for _, payload := range numbered(0, 60) {
		s.ask(t, payload)
	}
	want := slices.Concat(numbered(0, 40), numbered(41, 50), []string{"a50", "a40", "a51"})
	assert.Equal(t, want, s.fetches[0], "before what came later")
	assert.Len(t, s.fetches, 1+8)
	assert.Equal(t, 1, calls)

	s = newShelf(true)
	s.recent = func() []string { return numbered(0, 2*readAheadPayloads) }
	s.ask(t, "a0")
	assert.LessOrEqual(t, len(s.heard), readAheadPayloads)
}

// A broken connection takes with it what many wait for.
func TestAfterAFailureTheRowsAreReadInCommonAgain(t *testing.T) {
	s := newShelf(true)
	s.arrive("a", "b")
	s.fail = 1
	assert.Same(t, s.rows["a"], s.ask(t, "a"))
	assert.Same(t, s.rows["b"], s.ask(t, "b"))
	assert.Equal(t, [][]string{{"a", "b"}, {"a", "b"}}, s.fetches)
	assert.Empty(t, s.singles)
}

func TestWhatFailsInCommonIsReadByItself(t *testing.T) {
	s := newShelf(true)
	s.arrive("a", "b")
	s.fail = 2
	assert.Same(t, s.rows["a"], s.ask(t, "a"))
	assert.Equal(t, []string{"a"}, s.singles)
	assert.Empty(t, s.given, "what comes with an error is not to be trusted")
	assert.Empty(t, s.ready)

	assert.Same(t, s.rows["b"], s.ask(t, "b"))
	assert.Equal(t, []string{"a"}, s.singles, "it works again")
	s.note("a")
	assert.Same(t, s.rows["a"], s.ask(t, "a"))
	assert.Equal(t, []string{"a"}, s.singles, "for this one too")

	s.fail, s.failOne = 2, errors.New("the database is away")
	_, err := s.read(t.Context(), "c", s.readOne("c"))
	assert.Equal(t, s.failOne, err)
}

func TestAWatcherThatHasLeftReadsNoFurther(t *testing.T) {
	s := newShelf(true)
	s.arrive("a")
	s.failOne = context.Canceled
	ctx, cancel := context.WithCancel(t.Context())
	s.fail = 2
	s.during = func([]string) { cancel() }
	_, err := s.read(ctx, "a", s.readOne("a"))
	assert.Equal(t, context.Canceled, err)
	assert.Len(t, s.fetches, 1)
	assert.Equal(t, []string{"a"}, s.singles, "which says so as ever")
}

// Rows that cannot be had in common cost no second round trip, but for the first.
func TestRowsThatCannotBeHadInCommonAreReadByThemselves(t *testing.T) {
	s := newShelf(true)
	s.arrive("large", "larger", "small")
	s.large["large"], s.large["larger"] = true, true
	for _, payload := range []string{"large", "larger", "small"} {
		assert.Same(t, s.rows[payload], s.ask(t, payload))
	}
	assert.Equal(t, [][]string{{"large", "larger", "small"}}, s.fetches)
	assert.Equal(t, []string{"large", "larger"}, s.singles)

	s.arrive("large")
	assert.Same(t, s.rows["large"], s.ask(t, "large"))
	assert.Len(t, s.fetches, 1, "it is known by now")
	assert.Empty(t, s.heard)
	s.arrive("larger")
	assert.Same(t, s.rows["larger"], s.ask(t, "larger"))
	assert.Len(t, s.fetches, 2)
	s.arrive("small", "larger")
	assert.Same(t, s.rows["small"], s.ask(t, "small"))
	assert.Same(t, s.rows["larger"], s.ask(t, "larger"))
	assert.Len(t, s.fetches, 3)
}

func TestRowsThatAreNotThere(t *testing.T) {
	s := newShelf(true)
	s.note("gone")
	s.note("going")
	assert.Nil(t, s.ask(t, "gone"))
	assert.Nil(t, s.ask(t, "going"))
	assert.Equal(t, []string{"gone", "going"}, s.singles)
	s.arrive("gone")
	assert.Same(t, s.rows["gone"], s.ask(t, "gone"))
	assert.Equal(t, []string{"gone", "going"}, s.singles, "now it can be had in common")
}

// Writes, arrivals, reads, failures and time in any order, arrivals in the middle of reads included: a row is never older than the
// last arrival before it was asked for, nor than what was given for it before.
func TestARowIsNeverOlderThanTheLastArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, checkReadAhead) // which hides the deadline of the test, for which a bubble has no clock
	})
}

func checkReadAhead(t *rapid.T) {
	s := newShelf(rapid.Bool().Draw(t, "hears"))
	payloads := numbered(0, rapid.SampledFrom([]int{2, 5, 3 * readAheadRows}).Draw(t, "payloads"))
	arrived, given := map[string]uint32{}, map[string]uint32{}
	for _, payload := range payloads {
		s.write(payload)
	}
	some := rapid.SampledFrom(payloads)
	change := func(t *rapid.T) {
		switch payload := some.Draw(t, "changed"); rapid.IntRange(0, 2).Draw(t, "how") {
		case 0: // not heard of yet
			s.write(payload)
		case 1: // heard of late
			arrived[payload] = s.rows[payload].Attempts
			s.note(payload)
		case 2:
			s.arrive(payload)
			arrived[payload] = s.rows[payload].Attempts
		}
	}
	s.during = func([]string) {
		for range rapid.IntRange(0, 4).Draw(t, "meanwhile") {
			change(t)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"change": change,
		"burst": func(*rapid.T) {
			s.arrive(payloads...)
			for _, payload := range payloads {
				arrived[payload] = s.rows[payload].Attempts
			}
		},
		"ask": func(t *rapid.T) {
			payload := some.Draw(t, "asked")
			need := max(arrived[payload], given[payload])
			got := s.ask(t, payload)
			require.Equal(t, payload, got.Name)
			require.GreaterOrEqual(t, got.Attempts, need, payload)
			given[payload] = got.Attempts
		},
		"ask for the next": func(t *rapid.T) {
			for range rapid.IntRange(1, 2*readAheadRows).Draw(t, "asks") {
				if s.queue.Len() == 0 {
					return
				}
				payload := s.queue.Front().Value.(string)
				need := max(arrived[payload], given[payload])
				got := s.ask(t, payload)
				require.GreaterOrEqual(t, got.Attempts, need, payload)
				given[payload] = got.Attempts
			}
		},
		"fail": func(t *rapid.T) { s.fail = rapid.IntRange(0, 3).Draw(t, "failures") },
		"grow": func(t *rapid.T) { s.large[some.Draw(t, "large")] = rapid.Bool().Draw(t, "is") },
		"wait": func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{1, readAheadAge / 2, readAheadAge}).Draw(t, "time"))
		},
		"collect": func(*rapid.T) { runtime.GC() },
		"": func(t *rapid.T) {
			require.Equal(t, len(s.heard), s.queue.Len())
			require.Less(t, len(s.ready), readAheadRows)
			require.LessOrEqual(t, len(s.given), readAheadGiven)
			require.Empty(t, s.reading)
			for payload := range s.heard {
				require.NotContains(t, s.ready, payload)
				require.NotContains(t, s.given, payload)
			}
			for _, asked := range s.fetches {
				require.LessOrEqual(t, len(asked), readAheadRows)
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(asked))), len(asked), strings.Join(asked, " "))
			}
			s.fetches, s.singles = nil, nil
		},
	})
}
