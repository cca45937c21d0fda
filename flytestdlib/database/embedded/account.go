//go:build unix

package embedded

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom the server runs as when this process is root, which PostgreSQL refuses. A nil account is this process' own.
type account struct {
	name     string
	uid, gid uint32
	groups   []uint32
}

// serverAccount chooses the account for the data (which may not exist yet); nil when this process is not root. initdb wants the account to
// be a known one, so a bare uid will not do.
func serverAccount(name, data string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if name != "" {
		return lookupAccount(name)
	}
	if uid, exists, err := ownerOf(data); err != nil {
		return nil, err
	} else if exists && uid != 0 {
		owner, err := user.LookupId(strconv.Itoa(int(uid)))
		if err != nil {
			return nil, fmt.Errorf("owner of %s: %w", data, err)
		}
		return lookupAccount(owner.Username)
	}
	for _, name := range []string{"postgres", "nobody"} {
		if run, err := lookupAccount(name); err == nil {
			return run, nil
		}
	}
	return nil, fmt.Errorf("postgresql refuses to run as root, and neither an account postgres nor nobody exists to run it under")
}

func lookupAccount(name string) (*account, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", name, err)
	}
	ids := []string{found.Uid, found.Gid}
	groups, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of account %s: %w", name, err)
	}
	numbers := make([]uint32, 0, len(ids)+len(groups))
	for _, id := range append(ids, groups...) {
		number, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("account %s: id %q: %w", name, id, err)
		}
		numbers = append(numbers, uint32(number))
	}
	if numbers[0] == 0 {
		return nil, fmt.Errorf("account %s: postgresql refuses to run as root", name)
	}
	return &account{name: name, uid: numbers[0], gid: numbers[1], groups: numbers[2:]}, nil
}

// attributes has a child process change to the account, in a process group of its own: a Ctrl-C in the terminal must reach the
// server only by way of its owner, who stops it after its users.
func (a *account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attributes.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	}
	return attributes
}

// reach reports why the account could not get to path: the first folder above it that it may not enter.
func (a *account) reach(path string) error {
	if a == nil {
		return nil
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if err == nil && !a.mayEnter(info) {
			return fmt.Errorf("account %s may not enter %s (mode %04o)", a.name, dir, info.Mode().Perm())
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func (a *account) mayEnter(info os.FileInfo) bool {
	stat, mode := info.Sys().(*syscall.Stat_t), info.Mode()
	if stat.Uid == a.uid {
		return mode&0o100 != 0
	}
	member := stat.Gid == a.gid
	for _, group := range a.groups {
		member = member || stat.Gid == group
	}
	if member {
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}

// id is the uid that the server's files belong to.
func (a *account) id() uint32 {
	if a == nil {
		return uint32(os.Geteuid())
	}
	return a.uid
}

// own gives path to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}
