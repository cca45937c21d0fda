// Package progress shows where a load stands: in one line that is written over on a terminal, in a line now and then elsewhere.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
)

const (
	terminalEvery = 200 * time.Millisecond
	plainEvery    = 5 * time.Second

	backAndClear = "\r\x1b[K"
)

// Start writes line() to out again and again, until stop is called; stop waits until nothing more is written.
func Start(out *os.File, line func(elapsed time.Duration) string) (stop func()) {
	return start(out, isatty.IsTerminal(out.Fd()), line)
}

func start(out io.Writer, terminal bool, line func(time.Duration) string) (stop func()) {
	every := plainEvery
	if terminal {
		every = terminalEvery
	}
	begin := time.Now()
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-end:
				if terminal {
					fmt.Fprint(out, backAndClear)
				}
				return
			case <-tick.C:
			}
			if terminal {
				fmt.Fprint(out, backAndClear, line(time.Since(begin)))
			} else {
				fmt.Fprintln(out, line(time.Since(begin)))
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}
