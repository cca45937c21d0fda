//go:build unix

package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// folder is the place of one server. It is this process' own; only the data in it is the server's account's, which could otherwise, with a
// link in place of the log or the lock, have root write anywhere.
type folder struct {
	dir       string // absolute, links resolved: as the kernel names it, so that processesOver can compare
	temporary bool   // goes with the server
}

func (f folder) data() string     { return filepath.Join(f.dir, "data") }
func (f folder) newData() string  { return filepath.Join(f.dir, "data.new") }
func (f folder) password() string { return filepath.Join(f.dir, "password") }
func (f folder) log() string      { return filepath.Join(f.dir, "server.log") }
func (f folder) lock() string     { return filepath.Join(f.dir, "lock") }
func (f folder) pidFile() string  { return filepath.Join(f.data(), "postmaster.pid") }

// version returns the major version that made the data, 0 when there is none yet.
func (f folder) version() (int, error) {
	content, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
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

// leader returns the process id of the server that last ran over the data, 0 when there is no trace of one.
func (f folder) leader() int {
	content, _ := os.ReadFile(f.pidFile())
	first, _, _ := strings.Cut(string(content), "\n")
	pid, _ := strconv.Atoi(first)
	return pid
}

// lastingFolder opens the configured folder and says under which account its server has to run.
func lastingFolder(config Config) (folder, *account, error) {
	dir := config.Dir
	if dir == "" {
		dir = DefaultDir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return folder{}, nil, fmt.Errorf("dir: %w", err)
	}
	run, err := serverAccount(config.Account, folder{dir: dir}.data())
	if err != nil {
		return folder{}, nil, err
	}
	if config.Dir == "" && run.reach(dir) != nil {
		dir = fallbackDir(dir)
	}
	opened, err := openFolder(dir, run)
	return opened, run, err
}

// fallbackDir is where root keeps the data of a project that the server's account cannot enter: one folder per project.
func fallbackDir(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join("/var/lib/flyte-postgres", hex.EncodeToString(sum[:6]))
}

// openFolder creates the server's folder where it is missing, and refuses one that the account cannot use.
func openFolder(dir string, run *account) (folder, error) {
	if err := run.reach(dir); err != nil {
		return folder{}, fmt.Errorf("dir %s is out of reach for the server, which does not run as root: %w", dir, err)
	}
	if err := makeOpenFolders(dir, run); err != nil {
		return folder{}, fmt.Errorf("dir: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return folder{}, fmt.Errorf("dir: %w", err)
	}
	f := folder{dir: resolved}
	if err := run.reach(f.data()); err != nil {
		return folder{}, fmt.Errorf("dir %s is out of reach for the server, which does not run as root: %w", dir, err)
	}
	if owner, exists, err := ownerOf(f.data()); err != nil {
		return folder{}, fmt.Errorf("dir: %w", err)
	} else if exists && owner != run.id() {
		return folder{}, fmt.Errorf("dir: %s belongs to uid %d, but the server would run as uid %d: use another dir, or remove this one", f.data(), owner, run.id())
	}
	return f, nil
}

// makeOpenFolders is MkdirAll; what root makes is open to the account whatever the umask says.
func makeOpenFolders(dir string, run *account) error {
	if run == nil {
		return os.MkdirAll(dir, 0o755)
	}
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := makeOpenFolders(filepath.Dir(dir), run); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

func ownerOf(path string) (uid uint32, exists bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return info.Sys().(*syscall.Stat_t).Uid, true, nil
}
