//go:build unix

package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// temporaryPrefix begins the names of the folders of ephemeral servers.
const temporaryPrefix = "flyte-postgres-"

// temporaryFolder makes a folder for an ephemeral server, and clears away those of servers whose owners were killed.
func temporaryFolder(config Config) (folder, *account, error) {
	run, err := serverAccount(config.Account, "")
	if err != nil {
		return folder{}, nil, err
	}
	sweepTemporary()
	dir, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		return folder{}, nil, fmt.Errorf("temporary folder: %w", err)
	}
	opened, err := openTemporary(dir, run)
	if err != nil {
		return folder{}, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return opened, run, nil
}

func openTemporary(dir string, run *account) (folder, error) {
	if err := os.Chmod(dir, 0o755); err != nil { // MkdirTemp closes it to the server's account
		return folder{}, fmt.Errorf("temporary folder: %w", err)
	}
	opened, err := openFolder(dir, run)
	opened.temporary = true
	return opened, err
}

// sweepTemporary removes our account's folders whose lock nobody holds. One without a lock file is just being made.
func sweepTemporary() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	if err != nil {
		return // a temporary folder with a pattern in its name: nothing can be found there
	}
	for _, dir := range dirs {
		// Others may make such folders too, with links in them.
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			continue
		}
		f := folder{dir: dir}
		lock, err := lockFile(f.lock(), os.O_RDWR)
		if err != nil {
			continue // in use
		}
		if len(processesOver(f.data())) == 0 {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}
