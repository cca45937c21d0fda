package series

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

// tree is the worktree that a step changes. Paths are relative to its top, with slashes.
type tree struct{ dir string }

func (t tree) abs(name string) string { return filepath.Join(t.dir, filepath.FromSlash(name)) }

func (t tree) exists(name string) bool {
	_, err := os.Lstat(t.abs(name))
	return err == nil
}

func (t tree) read(name string) ([]byte, error) {
	content, err := os.ReadFile(t.abs(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: the file is missing", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}

// create writes a file that is not there yet.
func (t tree) create(name string, content []byte) error {
	if t.exists(name) {
		return fmt.Errorf("%s: the file is there already", name)
	}
	if err := os.MkdirAll(filepath.Dir(t.abs(name)), 0o755); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return t.write(name, content)
}

func (t tree) write(name string, content []byte) error {
	if err := os.WriteFile(t.abs(name), content, 0o644); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (t tree) remove(name string) error {
	if err := os.Remove(t.abs(name)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (t tree) parse(name string) (*goedit.File, error) {
	content, err := t.read(name)
	if err != nil {
		return nil, err
	}
	return goedit.Parse(name, content)
}

// save writes an edited file if it changed.
func (t tree) save(file *goedit.File) error {
	if !file.Changed() {
		return nil
	}
	content, err := file.Finish()
	if err != nil {
		return err
	}
	return t.write(file.Path(), content)
}

// goFiles are a package directory's files in order: tests or the others.
func (t tree) goFiles(dir string, tests bool) ([]string, error) {
	entries, err := os.ReadDir(t.abs(dir))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		if entry.Type().IsRegular() && strings.HasSuffix(name, ".go") && strings.HasSuffix(name, "_test.go") == tests {
			names = append(names, path.Join(dir, name))
		}
	}
	slices.Sort(names)
	return names, nil
}
