package checkout

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// Checkout is a clean git checkout with a commit to build on.
type Checkout struct {
	git     git
	dir     string // top of the work tree
	objects string // where its objects are
	head    string // the commit that is checked out
}

// Open looks at the checkout and changes nothing. It refuses what is no checkout's top, what has changes that are not committed, and
// one whose git config gives no identity to commit with.
func Open(ctx context.Context, dir string) (*Checkout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", dir, err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, fmt.Errorf("find %s: %w", dir, err)
	}
	c := &Checkout{git: git{dir: abs}, dir: abs}

	top, err := c.git.run(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("%s is no git checkout: %w", dir, err)
	}
	if top != abs {
		return nil, fmt.Errorf("%s is inside the checkout %s: name the checkout's top", dir, top)
	}
	if c.head, err = c.git.run(ctx, "rev-parse", "--verify", "HEAD^{commit}"); err != nil {
		return nil, fmt.Errorf("%s has no commit to build on: %w", dir, err)
	}
	if c.objects, err = c.git.run(ctx, "rev-parse", "--git-path", "objects"); err != nil {
		return nil, fmt.Errorf("%s: find the object store: %w", dir, err)
	}
	if !filepath.IsAbs(c.objects) {
		c.objects = filepath.Join(abs, c.objects)
	}
	status, err := c.git.run(ctx, "status", "--porcelain", "--untracked-files=normal")
	if err != nil {
		return nil, fmt.Errorf("%s: read its status: %w", dir, err)
	}
	if status != "" {
		return nil, fmt.Errorf("%s has changes that are not committed: %s", dir, summary(status))
	}
	for _, key := range []string{"user.name", "user.email"} {
		if value, err := c.git.run(ctx, "config", "--get", key); err != nil || strings.TrimSpace(value) == "" {
			return nil, fmt.Errorf("%s: its git config has no %s to sign the commits off with", dir, key)
		}
	}
	return c, nil
}

// Head is the commit that the series is built on.
func (c *Checkout) Head() string { return c.head }

// summary is the first lines of a status, in one line.
func summary(status string) string {
	const shown = 3
	lines := strings.Split(status, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	if len(lines) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(lines[:shown], ", "), len(lines)-shown)
	}
	return strings.Join(lines, ", ")
}

// ErrBranchExists says that there is a branch of that name.
var ErrBranchExists = errors.New("the branch exists")

// CheckBranch says why a branch can't be created; nil if nothing is known to be in its way.
func (c *Checkout) CheckBranch(ctx context.Context, name string) error {
	ref := "refs/heads/" + name
	args := []string{"for-each-ref", "--format=%(refname)", ref}
	for above := path.Dir(ref); above != "refs/heads"; above = path.Dir(above) {
		args = append(args, above)
	}
	found, err := c.git.run(ctx, args...)
	if err != nil {
		return fmt.Errorf("%s: look for branch %s: %w", c.dir, name, err)
	}
	for other := range strings.Lines(found) {
		other = strings.TrimSpace(other)
		if other == ref {
			return fmt.Errorf("%s: branch %s: %w", c.dir, name, ErrBranchExists)
		}
		// A branch can't have another one below it.
		if strings.HasPrefix(other, ref+"/") || strings.HasPrefix(ref, other+"/") {
			return fmt.Errorf("%s: branch %s can't be created beside %s", c.dir, name, strings.TrimPrefix(other, "refs/heads/"))
		}
	}
	return nil
}
