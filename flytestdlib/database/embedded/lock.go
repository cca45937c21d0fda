//go:build unix

package embedded

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// lockDir takes the folder's lock, which the kernel gives back when its holder ends, however that happens. The holder's process id is in it for the error message.
func lockDir(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder, _ := os.ReadFile(path)
		return nil, fmt.Errorf("in use by process %s (lock %s)", strings.TrimSpace(string(holder)), path)
	}
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return file, nil
}
