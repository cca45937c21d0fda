//go:build unix

// Command withpostgres runs a command with a PostgreSQL server beside it:
//
//	withpostgres [-port 15432] [-version 17] -- go test ./...
//
// A server that listens on the port and takes postgres/postgres is used as it is, whatever its version. Otherwise an embedded one with empty data is started,
// and stopped and removed when the command has ended. Signals go to the command; its exit code is the result (128 + n when signal n ended
// it; 125 when it could not be run at all).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
)

// failed is the exit code for our own failures, apart from what commands return by themselves.
const failed = 125

// probeTimeout bounds the question whether a usable server listens already.
const probeTimeout = 10 * time.Second

func main() {
	flags := flag.NewFlagSet("withpostgres", flag.ContinueOnError)
	port := flags.Int("port", 15432, "TCP `port` of the server on localhost")
	version := flags.Int("version", 0, "major `version` of the embedded server, which is downloaded if need be; 0: the newest on the machine")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: withpostgres [-port 15432] [-version 17] -- command [argument ...]")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		os.Exit(failed)
	case flags.NArg() == 0:
		flags.Usage()
		os.Exit(failed)
	}
	code, err := run(embedded.Config{Port: *port, Version: *version}, flags.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "withpostgres: %v\n", err)
	}
	os.Exit(code)
}

func run(config embedded.Config, command []string) (code int, err error) {
	// From here on a signal is the command's, also one that comes while the server starts or stops.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)

	if !usable(config.Port) {
		server, err := embedded.Start(context.Background(), config,
			embedded.Ephemeral(), embedded.WithSettings(map[string]string{"max_connections": "300"}))
		if err != nil {
			return failed, err
		}
		defer func() {
			if stopErr := server.Stop(context.Background()); stopErr != nil && err == nil {
				code, err = max(code, 1), stopErr
			}
		}()
	}
	return runCommand(command, signals)
}

// usable tells whether a server on the port takes the credentials that the tests use.
func usable(port int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, database.GetPostgresDsn(ctx, database.PostgresConfig{
		Host: "localhost", Port: port, DbName: "postgres", User: "postgres", Password: "postgres", ExtraOptions: "sslmode=disable",
	}))
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

func runCommand(command []string, signals <-chan os.Signal) (code int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A group of its own lets a signal reach the command's children too, and, when we own the terminal, has a Ctrl-C reach only them: the
	// server stays up until they have ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: inForeground()}
	if err := cmd.Start(); err != nil {
		return failed, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case received := <-signals:
			_ = syscall.Kill(-cmd.Process.Pid, received.(syscall.Signal)) // it may have just ended
		case err := <-ended:
			return exitCode(cmd.ProcessState, err)
		}
	}
}

func exitCode(state *os.ProcessState, err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return failed, err
	case state.Sys().(syscall.WaitStatus).Signaled():
		return 128 + int(state.Sys().(syscall.WaitStatus).Signal()), nil
	}
	return state.ExitCode(), nil
}

// inForeground tells whether standard input is a terminal whose keyboard is ours to hand on.
func inForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
