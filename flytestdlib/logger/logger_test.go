package logger

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func setup(t *testing.T, cfg Config, w io.Writer) {
	t.Helper()
	require.NoError(t, Setup(cfg, w))
	t.Cleanup(func() { require.NoError(t, Setup(DefaultConfig(), os.Stderr)) })
}

func TestLevelHoldsBackWhatIsLessSevere(t *testing.T) {
	for level, want := range map[Level]string{
		LevelDebug: "d i w e", LevelInfo: "i w e", "": "i w e", LevelWarn: "w e", LevelError: "e",
	} {
		t.Run(string(level), func(t *testing.T) {
			var out bytes.Buffer
			setup(t, Config{Level: level, Format: FormatJSON}, &out)

			ctx := context.Background()
			Debugf(ctx, "%s", "d")
			Infof(ctx, "%s", "i")
			Warnf(ctx, "%s", "w")
			Errorf(ctx, "%s", "e")

			var got []string
			for line := range strings.Lines(out.String()) {
				var l struct{ Msg string }
				require.NoError(t, json.Unmarshal([]byte(line), &l))
				got = append(got, l.Msg)
			}
			assert.Equal(t, want, strings.Join(got, " "))
		})
	}
}

func TestFieldsTravelInTheContextAndDoNotLeakIntoTheOuterOne(t *testing.T) {
	var out bytes.Buffer
	setup(t, Config{Format: FormatText}, &out)

	outer := WithFields(context.Background(), "run", "r1")
	one := WithFields(outer, "attempt", 1)
	two := WithFields(outer, "attempt", 2)
	Infof(one, "first")
	Infof(two, "second")
	Infof(outer, "outer")

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	assert.True(t, strings.HasSuffix(lines[0], "level=INFO msg=first run=r1 attempt=1"), lines[0])
	assert.True(t, strings.HasSuffix(lines[1], "level=INFO msg=second run=r1 attempt=2"), lines[1])
	assert.True(t, strings.HasSuffix(lines[2], "level=INFO msg=outer run=r1"), lines[2])
}

func TestALineCannotBeForgedByAMessage(t *testing.T) {
	var out bytes.Buffer
	setup(t, DefaultConfig(), &out)

	Infof(context.Background(), "name %s", "x\nlevel=ERROR msg=forged")

	assert.Equal(t, 1, strings.Count(out.String(), "\n"))
}

func TestSetupNamesTheFieldThatIsWrongAndKeepsTheLog(t *testing.T) {
	var out bytes.Buffer
	setup(t, DefaultConfig(), &out)

	require.EqualError(t, Setup(Config{Level: "loud"}, io.Discard), `logger: level: "loud" is none of debug, info, warn, error`)
	require.EqualError(t, Setup(Config{Format: "xml"}, io.Discard), `logger: format: "xml" is none of text, json`)

	Infof(context.Background(), "still here")
	assert.Contains(t, out.String(), "still here")
}

func TestManyGoroutinesWhileSetupReplacesTheHandler(t *testing.T) {
	var out bytes.Buffer
	setup(t, DefaultConfig(), &out)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				Infof(context.Background(), "line")
			}
		})
	}
	var other bytes.Buffer
	require.NoError(t, Setup(DefaultConfig(), &other))
	wg.Wait()

	assert.Equal(t, 800, strings.Count(out.String()+other.String(), "msg=line"))
}

func BenchmarkHeldBack(b *testing.B) {
	ctx := WithFields(context.Background(), "run", "r1")
	b.ReportAllocs()
	for b.Loop() {
		Debugf(ctx, "nobody reads this")
	}
}
