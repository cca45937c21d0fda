//go:build unix

package embedded

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// lockFile takes the lock of a server's folder, which the kernel gives back when its holder ends, however that happens. The holder's
// process id is in the file, for the error message.
func lockFile(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder, _ := os.ReadFile(path)
		return nil, fmt.Errorf("in use by process %s, which holds %s", strings.TrimSpace(string(holder)), path)
	}
	if err := errors.Join(file.Truncate(0), write(file, fmt.Sprintln(os.Getpid()))); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}

func write(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
