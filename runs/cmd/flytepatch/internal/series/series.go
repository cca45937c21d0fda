package series

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// vetTimeout bounds the compilation of one commit's packages, dependencies and tests included, with a cold cache.
const vetTimeout = 15 * time.Minute

// Worktree is where the commits are made.
type Worktree interface {
	Dir() string
	Commit(ctx context.Context, message string) error
}

// ErrApplied says that the checkout has the change already.
var ErrApplied = errors.New("already applied")

// step is one commit of the series.
type step struct {
	message  string // name of the file with subject and reason
	packages []string
	edit     func(t tree) (removedTests []string, err error)
}

// Build makes the series' commits in the worktree, each compiled with its tests before it is committed. The last one, watches that
// read ahead, is made if ahead is set.
func Build(ctx context.Context, source Source, worktree Worktree, ahead bool, progress func(format string, args ...any)) error {
	t := tree{dir: worktree.Dir()}
	if err := check(t, ahead); err != nil {
		return err
	}
	for _, step := range steps(source, ahead) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		subject, err := step.commit(ctx, t, worktree)
		if err != nil && step.message == aheadMessage {
			return dispensable(err)
		}
		if err != nil {
			return err
		}
		progress("committed: %s", subject)
	}
	return nil
}

// commit makes one step, and tells its subject.
func (s step) commit(ctx context.Context, t tree, worktree Worktree) (subject string, err error) {
	removedTests, err := s.edit(t)
	if err != nil {
		return "", err
	}
	if err := vet(ctx, t, s.packages); err != nil {
		return "", err
	}
	message, err := message(s.message, removedTests)
	if err != nil {
		return "", err
	}
	subject, _, _ = strings.Cut(message, "\n")
	return subject, worktree.Commit(ctx, message)
}

// check refuses, before anything is compiled, what the series is not made for.
func check(t tree, ahead bool) error {
	if err := checkModule(t); err != nil {
		return err
	}
	if t.exists(engineDir) {
		return fmt.Errorf("%s is there: %w", engineDir, ErrApplied)
	}
	p, err := loadImpl(t)
	if err != nil {
		return err
	}
	if _, err = planPump(p); err != nil {
		return err
	}
	if _, err = planReceive(p); err != nil {
		return err
	}
	if _, _, err = newestMigration(t); err != nil {
		return err
	}
	if err := checkMetrics(t); err != nil {
		return err
	}
	if ahead {
		if err := checkAhead(t, p); err != nil {
			return dispensable(err)
		}
	}
	return nil
}

// dispensable says of what stands in the way of the last commit how to have the others.
func dispensable(err error) error {
	return fmt.Errorf("%w (--without-ahead makes the other commits)", err)
}

func steps(source Source, ahead bool) []step {
	all := []step{
		{message: "1-pgnotify.txt", packages: []string{engineDir}, edit: func(t tree) ([]string, error) { return nil, putEngine(t, source, false) }},
		{message: "2-pump.txt", packages: []string{engineDir, implDir}, edit: putPump},
		{message: "3-receive.txt", packages: []string{engineDir, implDir, "runs/migrations"}, edit: putReceive},
		{message: "4-metrics.txt", packages: []string{engineDir, implDir}, edit: func(t tree) ([]string, error) { return nil, putMetrics(t, source) }},
	}
	if ahead {
		all = append(all, step{message: aheadMessage, packages: []string{engineDir, implDir}, edit: func(t tree) ([]string, error) { return nil, putAhead(t, source) }})
	}
	return all
}

// putEngine copies the package.
func putEngine(t tree, source Source, metrics bool) error {
	files, err := engineFiles(source, metrics)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := t.create(name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// message reads a commit's message and adds which tests went with what they tested.
func message(name string, removedTests []string) (string, error) {
	content, err := template("messages/" + name)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(content)) + "\n"
	if len(removedTests) > 0 {
		text += "\nTests of what was replaced go with it:\n"
		for _, test := range removedTests {
			text += "- " + test + "\n"
		}
	}
	return text, nil
}

// vet compiles packages and their tests.
func vet(ctx context.Context, t tree, dirs []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, vetTimeout, fmt.Errorf("no end after %s", vetTimeout))
	defer cancel()
	args := []string{"vet"}
	for _, dir := range dirs {
		args = append(args, "./"+dir+"/...")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	// The worktree is a module of its own, whatever workspace the tool was started from.
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+t.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("go vet: %w", context.Cause(ctx))
		}
		return fmt.Errorf("the changed packages do not compile there: go %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
