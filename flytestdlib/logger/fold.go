package logger

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Fold writes lines that may come by the thousand, of which one says as much as all. Of each kind it writes the first at once; the others
// are counted, and at the end of each interval one of them is written, with its time and the number of those that it stands for. A kind that
// stays quiet for an interval begins anew. So nothing is left out without being counted, and the last ones are told even if none follows.
//
// There should be few kinds: each has its own lines. A line that is held back costs a lock and, unless it is the first of its interval, no
// formatting. The zero value is ready. Methods may be called from any goroutine; it must not be copied.
type Fold struct {
	// Every is the interval; 0 stands for 10 s, in which nobody misses anything and a log of hours can still be read.
	Every time.Duration
}

const defaultFoldInterval = 10 * time.Second

func (f *Fold) interval() time.Duration { return cmp.Or(f.Every, defaultFoldInterval) }

// Warnf is the function Warnf for a line of a kind.
func (f *Fold) Warnf(ctx context.Context, kind, format string, args ...any) {
	f.logf(ctx, slog.LevelWarn, kind, format, args)
}

// Errorf is the function Errorf for a line of a kind.
func (f *Fold) Errorf(ctx context.Context, kind, format string, args ...any) {
	f.logf(ctx, slog.LevelError, kind, format, args)
}

// folding has the kinds of all folds whose interval has not ended.
var folding = struct {
	sync.Mutex
	open map[foldKey]*foldedLines
}{open: map[foldKey]*foldedLines{}}

type foldKey struct {
	fold *Fold
	kind string
}

// foldedLines are the lines of a kind that were not written.
type foldedLines struct {
	count    int
	example  slog.Record // of the first of them
	interval *time.Timer
}

func (f *Fold) logf(ctx context.Context, level slog.Level, kind, format string, args []any) {
	key := foldKey{f, kind}
	folding.Lock()
	lines := folding.open[key]
	if lines != nil {
		defer folding.Unlock()
		lines.count++
		if lines.count == 1 {
			lines.example = newRecord(ctx, level, fmt.Sprintf(format, args...))
		}
		return
	}
	folding.open[key] = &foldedLines{interval: time.AfterFunc(f.interval(), func() { endInterval(key) })}
	folding.Unlock() // a log may block

	logf(ctx, level, format, args...)
}

func endInterval(key foldKey) {
	folding.Lock()
	lines := folding.open[key]
	line, any := lines.take(key.fold.interval())
	if any {
		lines.interval.Reset(key.fold.interval())
	} else {
		delete(folding.open, key)
	}
	folding.Unlock()

	if any {
		writeLate(line)
	}
}

// take returns the line that stands for those held back, of which there are none afterwards; false when there were none.
func (l *foldedLines) take(every time.Duration) (line slog.Record, any bool) {
	line, n := l.example, l.count
	l.example, l.count = slog.Record{}, 0
	// The line is written when it may be over: it says from when it is.
	switch since := line.Time.UTC().Format("15:04:05.000Z"); n {
	case 0:
		return line, false
	case 1:
		line.Message += fmt.Sprintf(" (at %s)", since)
	default:
		line.Message += fmt.Sprintf(" (at %s, and %d more like it within %s)", since, n-1, every)
	}
	return line, true
}

// Flush writes what folds hold back, so that nothing goes untold when the process ends.
func Flush() {
	var lines []slog.Record
	folding.Lock()
	for key, held := range folding.open {
		if line, any := held.take(key.fold.interval()); any {
			lines = append(lines, line)
		}
	}
	folding.Unlock()

	for _, line := range lines {
		writeLate(line)
	}
}

// writeLate writes a line whose context is no longer there, with the time at which it is written.
func writeLate(line slog.Record) {
	ctx := context.Background()
	line.Time = time.Now()
	if h := *current.Load(); h.Enabled(ctx, line.Level) {
		handle(ctx, h, line)
	}
}
