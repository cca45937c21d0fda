package logger

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var clockTime = regexp.MustCompile(`at \d\d:\d\d:\d\d\.\d\d\dZ`)

// lines is a log that is written and read by several goroutines.
type lines struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

// take returns what was written since it was last called, without what differs from run to run.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.log.Reset()
	var all []string
	for line := range strings.Lines(l.log.String()) {
		_, message, _ := strings.Cut(strings.TrimSpace(line), "level=")
		all = append(all, clockTime.ReplaceAllString(strings.NewReplacer("msg=", "", `"`, "").Replace(message), "at T"))
	}
	return all
}

func TestAFoldWritesOneLineAnIntervalAndCountsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		setup(t, DefaultConfig(), &out)
		var f Fold
		told := func() []string {
			synctest.Wait()
			return out.take()
		}
		ctx := WithFields(context.Background(), "attempt", 7)

		for i := range 1000 {
			f.Warnf(ctx, "a", "refused %d", i)
		}
		f.Errorf(ctx, "b", "another kind")
		require.Equal(t, []string{"WARN refused 0 attempt=7", "ERROR another kind attempt=7"}, told(), "the first at once")

		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"WARN refused 1 (at T, and 998 more like it within 10s) attempt=7"}, told())

		time.Sleep(5 * time.Second)
		f.Warnf(ctx, "a", "one more")
		require.Empty(t, told())
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"WARN one more (at T) attempt=7"}, told(), "the last is told though none follows it")

		time.Sleep(10 * time.Second)
		require.Empty(t, told())
		require.Empty(t, folding.open, "nothing is kept of what is over")
		f.Warnf(ctx, "a", "anew")
		require.Equal(t, []string{"WARN anew attempt=7"}, told())
		time.Sleep(10 * time.Second)
	})
}

func TestFlushTellsWhatIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		setup(t, DefaultConfig(), &out)
		f := Fold{Every: time.Minute}
		for i := range 5 {
			f.Warnf(t.Context(), "a", "line %d", i)
		}
		Flush()
		Flush()
		require.Equal(t, []string{"WARN line 0", "WARN line 1 (at T, and 3 more like it within 1m0s)"}, out.take())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, out.take())
	})
}

func TestEveryLineOfAFoldIsCountedOnce(t *testing.T) {
	var out lines
	setup(t, DefaultConfig(), &out)
	const goroutines, each = 8, 2000
	f := Fold{Every: time.Millisecond}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				f.Warnf(context.Background(), "a", "line")
			}
		})
	}
	wg.Wait()
	Flush()

	more := regexp.MustCompile(`and (\d+) more`)
	told := 0
	require.Eventually(t, func() bool {
		for _, line := range out.take() {
			told++
			if count := more.FindStringSubmatch(line); count != nil {
				n, err := strconv.Atoi(count[1])
				require.NoError(t, err)
				told += n
			}
		}
		return told >= goroutines*each
	}, time.Minute, time.Millisecond)
	assert.Equal(t, goroutines*each, told)
}

func BenchmarkFolded(b *testing.B) {
	f := Fold{Every: time.Hour}
	b.ReportAllocs()
	for b.Loop() {
		f.Warnf(context.Background(), "a", "held back %d", 7)
	}
}
