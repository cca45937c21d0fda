package checkout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// cleanupTimeout bounds the removal of the worktree, which runs after an interrupt too.
const cleanupTimeout = 30 * time.Second

// Worktree is a temporary place to commit in. Close it.
type Worktree struct {
	of   *Checkout
	git  git
	temp string // holds the tree and the new objects
	dir  string
	tip  string
}

// Worktree checks the head commit out into a temporary directory.
func (c *Checkout) Worktree(ctx context.Context) (_ *Worktree, err error) {
	temp, err := os.MkdirTemp("", "flytepatch-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	if temp, err = filepath.EvalSymlinks(temp); err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	// Git keeps its record of the worktree under the last part of its path: one that nobody else has.
	w := &Worktree{of: c, temp: temp, dir: filepath.Join(temp, filepath.Base(temp)), tip: c.head}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	objects := filepath.Join(temp, "objects")
	if err := os.Mkdir(objects, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for new objects: %w", err)
	}
	w.git = git{
		dir: w.dir,
		// What is in a file is what is committed.
		config: []string{"core.autocrlf=false", "core.safecrlf=false"},
		env: []string{
			"GIT_OBJECT_DIRECTORY=" + objects,
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quotedPath(c.objects),
		},
	}
	making := w.git
	making.dir = c.dir
	if _, err := making.run(ctx, "worktree", "add", "--quiet", "--detach", w.dir, c.head); err != nil {
		return nil, fmt.Errorf("%s: make a temporary worktree: %w", c.dir, err)
	}
	return w, nil
}

// quotedPath is a path as it stands in a list that colons separate.
func quotedPath(path string) string {
	if !strings.ContainsAny(path, ":\"") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

// Dir is the worktree's top.
func (w *Worktree) Dir() string { return w.dir }

// Tip is the last commit.
func (w *Worktree) Tip() string { return w.tip }

// Commit commits everything in the worktree, signed off.
func (w *Worktree) Commit(ctx context.Context, message string) error {
	if _, err := w.git.run(ctx, "add", "--all", "--force"); err != nil {
		return fmt.Errorf("stage the change: %w", err)
	}
	_, err := w.git.pipe(ctx, strings.NewReader(message), "commit", "--quiet", "--signoff", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "--file=-")
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if w.tip, err = w.git.run(ctx, "rev-parse", "HEAD"); err != nil {
		return fmt.Errorf("read the commit: %w", err)
	}
	return nil
}

// CreateBranch puts the commits into the checkout, on a new branch.
func (w *Worktree) CreateBranch(ctx context.Context, name string) error {
	pack, packed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		revisions := strings.NewReader(w.tip + "\n^" + w.of.head + "\n")
		err := w.git.stream(ctx, revisions, packed, "pack-objects", "--quiet", "--revs", "--stdout")
		packed.CloseWithError(err)
		done <- err
	}()
	_, err := w.of.git.pipe(ctx, pack, "unpack-objects", "-q")
	pack.CloseWithError(err) // lets the packer go if nobody reads on
	if err := errors.Join(<-done, err); err != nil {
		return fmt.Errorf("%s: copy the commits: %w", w.of.dir, err)
	}
	const mustNotExist = "0000000000000000000000000000000000000000"
	if _, err := w.of.git.run(ctx, "update-ref", "-m", "flytepatch", "refs/heads/"+name, w.tip, mustNotExist); err != nil {
		return fmt.Errorf("%s: create branch %s: %w", w.of.dir, name, err)
	}
	return nil
}

// Close removes the worktree and what git keeps about it. It works when the context of the run has ended.
func (w *Worktree) Close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), cleanupTimeout, fmt.Errorf("no end after %s", cleanupTimeout))
	defer cancel()
	// Forced twice: also when it is locked, as it is while git is still making it.
	_, err := w.of.git.run(ctx, "worktree", "remove", "--force", "--force", w.dir)
	if err != nil {
		// Not registered, or only half: what is left is found by its path.
		err = w.forget(ctx)
	}
	return errors.Join(err, os.RemoveAll(w.temp))
}

// forget removes git's record of the worktree. Not by prune, which would forget other worktrees too.
func (w *Worktree) forget(ctx context.Context) error {
	records, err := w.of.git.run(ctx, "rev-parse", "--git-path", "worktrees")
	if err != nil {
		return fmt.Errorf("%s: find the worktrees: %w", w.of.dir, err)
	}
	if !filepath.IsAbs(records) {
		records = filepath.Join(w.of.dir, records)
	}
	if err := os.RemoveAll(filepath.Join(records, filepath.Base(w.dir))); err != nil && !errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("remove the worktree's record: %w", err)
	}
	// As git does: no empty directory stays.
	if left, err := os.ReadDir(records); err == nil && len(left) == 0 {
		if err := os.Remove(records); err != nil {
			return fmt.Errorf("remove %s: %w", records, err)
		}
	}
	return nil
}
