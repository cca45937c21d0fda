package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CoverLetter is the name of the file that introduces the patches. Not a .patch: `git am *.patch` shall take the commits alone.
const CoverLetter = "0000-cover-letter.txt"

// Cover is what the cover letter says.
type Cover struct {
	Subject string
	Text    string
}

// CheckOut says why patches can't be written to a directory; nil if they can. It leaves nothing behind.
func CheckOut(dir string) error {
	existing, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s can't be written: %w", dir, err)
	}
	taken := slices.ContainsFunc(existing, func(entry os.DirEntry) bool {
		return strings.HasSuffix(entry.Name(), ".patch") || entry.Name() == CoverLetter
	})
	if taken {
		return fmt.Errorf("%s holds patches already", dir)
	}
	// What is not there yet is made in the nearest directory that is.
	parent := filepath.Clean(dir)
	for {
		probe, err := os.CreateTemp(parent, ".flytepatch-")
		if err == nil {
			return errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
		next := filepath.Dir(parent)
		if !errors.Is(err, os.ErrNotExist) || next == parent {
			return fmt.Errorf("%s can't be written: %w", dir, err)
		}
		parent = next
	}
}

// Patches writes the commits as mails, one a file, with a cover letter, and gives the files' names in order. Either all are
// written or none.
func (w *Worktree) Patches(ctx context.Context, dir string, cover Cover) (names []string, err error) {
	made := filepath.Join(w.temp, "patches")
	// Everything that the owner's config could turn is set: the files must be applicable anywhere.
	_, err = w.git.run(ctx, "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false",
		"format-patch", "--quiet", "--cover-letter", "--output-directory="+made, "--numbered", "--no-attach", "--no-thread", "--no-signature",
		"--full-index", "--binary", "--no-ext-diff", "--no-color", "--no-renames", "--no-base", "--no-to", "--no-cc", "--no-notes",
		"--src-prefix=a/", "--dst-prefix=b/", "--suffix=.patch", "--subject-prefix=PATCH", "--encode-email-headers", w.of.head+"..HEAD")
	if err != nil {
		return nil, fmt.Errorf("write the patches: %w", err)
	}
	files, err := os.ReadDir(made)
	if err != nil {
		return nil, fmt.Errorf("read the patches: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, RemovePatches(dir, names))
			names = nil
		}
	}()
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(made, file.Name()))
		if err != nil {
			return names, fmt.Errorf("read a patch: %w", err)
		}
		name := file.Name()
		if name == "0000-cover-letter.patch" {
			name = CoverLetter
			text := strings.Replace(string(content), "*** SUBJECT HERE ***", cover.Subject, 1)
			content = []byte(strings.Replace(text, "*** BLURB HERE ***", strings.TrimSpace(cover.Text), 1))
		}
		if err := writeNew(filepath.Join(dir, name), content); err != nil {
			return names, err
		}
		names = append(names, name)
	}
	return names, nil
}

// RemovePatches takes back what Patches has written.
func RemovePatches(dir string, names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// writeNew writes a file that must not exist.
func writeNew(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}
