//go:build unix

package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// initialize creates the data where there is none. It is made beside its place and moved there when complete, so that an interrupted
// attempt leaves nothing that looks like data.
func (s *Server) initialize(ctx context.Context) error {
	if version, err := s.folder.version(); err != nil || version != 0 {
		return err
	}
	fresh, secret := s.folder.newData(), s.folder.password()
	if err := errors.Join(os.RemoveAll(fresh), os.Mkdir(fresh, 0o700), s.run.own(fresh)); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	defer func() { _ = os.Remove(secret) }()
	if err := writePrivate(secret, s.options.password, s.run); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	args := []string{"-D", fresh, "-U", s.options.user, "--pwfile=" + secret, "-A", "scram-sha-256", "--encoding=UTF8", "--locale=C"}
	if s.options.withoutSync {
		args = append(args, "--no-sync")
	}
	out, err := output(command(ctx, s.run, s.programs.path("initdb"), args...))
	if ctx.Err() != nil {
		return fmt.Errorf("initdb: %w", context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(out))
	}
	return os.Rename(fresh, s.folder.data())
}

// writePrivate makes a new file that only the account can read.
func writePrivate(path, content string, run *account) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := run.own(path); err != nil {
		_ = file.Close()
		return err
	}
	if err := write(file, content); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
