package checkout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// commandTimeout bounds one git command. Checking out a large tree on a slow disk takes the longest.
	commandTimeout = 5 * time.Minute
	// killDelay is how long a cancelled command has to end by itself.
	killDelay = 5 * time.Second
)

// git runs git in a directory with extra environment.
type git struct {
	dir    string
	config []string // settings in front of the config's own: name=value
	env    []string
}

// run gives what the command wrote, without the last line's end. A failure carries what git had to say.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	return g.pipe(ctx, nil, args...)
}

// pipe is run with a standard input.
func (g git) pipe(ctx context.Context, in io.Reader, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.stream(ctx, in, &out, args...)
	return strings.TrimRight(out.String(), "\n"), err
}

func (g git) stream(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, fmt.Errorf("no end after %s", commandTimeout))
	defer cancel()
	// No hook of the owner's runs in our worktree, and no status refreshes the owner's index.
	options := []string{"--no-optional-locks", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"}
	for _, setting := range g.config {
		options = append(options, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, "git", append(options, args...)...)
	cmd.Dir = g.dir
	cmd.Env = append(environment(), g.env...)
	cmd.Stdin, cmd.Stdout = in, out
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	// A group of its own: an interrupt at the terminal reaches us alone, and we end the command in order, with the commands that it
	// runs in turn.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("git is not installed: %w", err)
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	return fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
}

// environment is the process' own, less what would send git elsewhere (a GIT_DIR of a hook that runs us) or put another identity
// in front of the checkout's config.
func environment() []string {
	kept := []string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true"}
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		config := name == "GIT_CONFIG_GLOBAL" || name == "GIT_CONFIG_SYSTEM" || name == "GIT_CONFIG_NOSYSTEM"
		if name == "LC_ALL" || name == "EMAIL" || strings.HasPrefix(name, "GIT_") && !config {
			continue
		}
		kept = append(kept, setting)
	}
	return kept
}
