// Command notifybench measures what LISTEN and NOTIFY cost, on anyone's PostgreSQL or on an embedded one: the classic fan-out load,
// streams whose readers are woken by it, and the ways to send a thousand notifications.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// Exit codes.
const (
	exitFailed      = 1   // could not run: bad flags, no server, missing rights
	exitVoid        = 2   // ran, but something was lost or came twice: the figures say nothing
	exitInterrupted = 130 // as shells have it for SIGINT
)

func main() {
	os.Exit(run())
}

func run() int {
	if err := logger.Setup(logger.Config{Level: logger.LevelWarn}, os.Stderr); err != nil {
		panic(err) // the level is a constant
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	err := command().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "notifybench:", oneLine(err))
	var void voidError
	switch {
	case errors.As(err, &void):
		return exitVoid
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	}
	return exitFailed
}

// oneLine says in a line what joined errors, and those of a driver that tries several addresses, say in several.
func oneLine(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}
