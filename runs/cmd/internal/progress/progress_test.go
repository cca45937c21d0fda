package progress

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func lines(elapsed time.Duration) string { return fmt.Sprintf("after %v", elapsed) }

func TestPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := start(&out, false, lines)
		time.Sleep(11 * time.Second)
		stop()
		assert.Equal(t, "after 5s\nafter 10s\n", out.String())
	})
}

func TestTerminalLineIsWrittenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := start(&out, true, lines)
		time.Sleep(450 * time.Millisecond)
		stop()
		assert.Equal(t, "\r\x1b[Kafter 200ms\r\x1b[Kafter 400ms\r\x1b[K", out.String())
	})
}
