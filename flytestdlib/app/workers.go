package app

import (
	"context"
	"fmt"
)

// workers are the goroutines that the app owns.
type workers struct {
	running tally
	ctx     context.Context
	stop    context.CancelFunc
}

// start runs work in the background. failed is called when it returns an error without having been asked to stop.
func (w *workers) start(name string, work func(context.Context) error, failed context.CancelCauseFunc) {
	w.running.begin(name)
	go func() {
		defer w.running.end(name)
		if err := work(w.ctx); err != nil && w.ctx.Err() == nil {
			failed(fmt.Errorf("%s: %w", name, err))
		}
	}()
}
