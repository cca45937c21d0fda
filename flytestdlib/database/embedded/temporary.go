//go:build unix

package embedded

import (
	"fmt"
	"os"
	"path/filepath"
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
	temporary, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		return folder{}, nil, fmt.Errorf("temporary folder: %w", err)
	}
	if err := os.Chmod(temporary, 0o755); err != nil { // MkdirTemp closes it to the server's account
		return folder{}, nil, fmt.Errorf("temporary folder: %w", err)
	}
	opened, err := openFolder(filepath.Join(temporary, "server"), run)
	if err != nil {
		_ = os.RemoveAll(temporary)
		return folder{}, nil, err
	}
	opened.temporary = temporary
	return opened, run, nil
}

// sweepTemporary removes the folders whose lock nobody holds. One without a lock file is just being made, or none of ours.
func sweepTemporary() {
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*", "server", "lock"))
	if err != nil {
		return // a temporary folder with a pattern in its name: nothing can be found there
	}
	for _, path := range locks {
		lock, err := lockFile(path, os.O_RDWR)
		if err != nil {
			continue // in use, or another account's
		}
		server := filepath.Dir(path)
		if len(processesOver(filepath.Join(server, "data"))) == 0 {
			_ = os.RemoveAll(filepath.Dir(server))
		}
		_ = lock.Close()
	}
}
