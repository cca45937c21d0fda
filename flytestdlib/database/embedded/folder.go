//go:build unix

package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// folder is the place of one server: data, log and lock below one directory.
type folder struct {
	dir string // absolute, links resolved: as the kernel names it, so that processesOver can compare
}

func (f folder) data() string { return filepath.Join(f.dir, "data") }
func (f folder) log() string  { return filepath.Join(f.dir, "server.log") }
func (f folder) lock() string { return filepath.Join(f.dir, "lock") }

// version returns the major version that made the data, 0 when there is none yet.
func (f folder) version() (int, error) {
	content, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("version of the data: %w", err)
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("version of the data in %s: %w", f.data(), err)
	}
	return version, nil
}

// openFolder creates the server's folder where it is missing and gives it to the account.
func openFolder(dir string, run *account) (folder, error) {
	if err := run.reach(filepath.Join(dir, "data")); err != nil {
		return folder{}, err
	}
	_, err := os.Stat(dir)
	missing := os.IsNotExist(err)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return folder{}, err
	}
	if missing {
		if err := run.own(dir); err != nil {
			return folder{}, err
		}
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return folder{}, err
	}
	return folder{dir: resolved}, nil
}

// chooseDir returns the absolute folder for config, and the account to run under. Without a configured folder, and with the default one
// out of the account's reach, the data goes below /var/lib, in a folder named after the default one.
func chooseDir(config Config) (string, *account, error) {
	dir := config.Dir
	if dir == "" {
		dir = DefaultDir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("dir: %w", err)
	}
	run, err := serverAccount(config.Account, dir)
	if err != nil {
		return "", nil, err
	}
	if config.Dir == "" && run.reach(filepath.Join(dir, "data")) != nil {
		sum := sha256.Sum256([]byte(dir))
		dir = filepath.Join("/var/lib/flyte-postgres", hex.EncodeToString(sum[:6]))
	}
	return dir, run, nil
}
