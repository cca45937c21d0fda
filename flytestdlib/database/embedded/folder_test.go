//go:build unix

package embedded

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// stranger is an account that owns nothing here.
var stranger = &account{name: "stranger", uid: 54321, gid: 54321, groups: []uint32{54322}}

func TestReachNamesTheFolderThatIsClosed(t *testing.T) {
	closed := filepath.Join(publicDir(t), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	inside := filepath.Join(closed, "not", "yet", "there")
	require.ErrorContains(t, stranger.reach(inside), "account stranger may not enter "+closed+" (mode 0700)")
	require.NoError(t, os.Chmod(closed, 0o711))
	require.NoError(t, stranger.reach(inside))
	// The class that counts is the first that fits, as in the kernel.
	owner := &account{name: "owner", uid: uint32(os.Geteuid()), gid: 54321}
	require.NoError(t, os.Chmod(closed, 0o077))
	require.Error(t, owner.reach(inside))
	member := &account{name: "member", uid: 54321, gid: 54321, groups: []uint32{uint32(os.Getegid())}}
	require.NoError(t, os.Chmod(closed, 0o701))
	require.Error(t, member.reach(inside))
	require.NoError(t, os.Chmod(closed, 0o710))
	require.NoError(t, member.reach(inside))
	require.NoError(t, (*account)(nil).reach(inside))
}

func TestAFolderOutOfReachIsRefused(t *testing.T) {
	closed := filepath.Join(publicDir(t), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	_, err := openFolder(filepath.Join(closed, "postgres"), stranger)
	require.ErrorContains(t, err, "out of reach for the server, which does not run as root")
	require.NoDirExists(t, filepath.Join(closed, "postgres"))
}

func TestDataOfAnotherAccountIsRefused(t *testing.T) {
	dir := publicDir(t)
	require.NoError(t, os.Mkdir(folder{dir: dir}.data(), 0o700))
	_, err := openFolder(dir, stranger)
	require.ErrorContains(t, err, folder{dir: dir}.data()+" belongs to uid")
	require.ErrorContains(t, err, "but the server would run as uid 54321")
}

func TestFoldersAreOpenToTheAccountWhateverTheUmask(t *testing.T) {
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	_, err := openFolder(filepath.Join(publicDir(t), "made", "by", "root"), stranger)
	require.NoError(t, err)
}

func TestLogAndLockAreNeverWrittenThroughLinks(t *testing.T) {
	dir := publicDir(t)
	victim := filepath.Join(dir, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o644))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(victim, link))
	_, err := lockFile(link, os.O_RDWR|os.O_CREATE)
	require.ErrorIs(t, err, syscall.ELOOP)
	_, _, err = openLog(link)
	require.ErrorIs(t, err, syscall.ELOOP)
}

// A checkout under /root is the common case: everything of root's works there, and the server's account cannot enter.
func TestTheDefaultFolderIsElsewhereForAProjectThatTheServerCannotEnter(t *testing.T) {
	project := filepath.Join(publicDir(t), "project")
	require.NoError(t, os.Mkdir(project, 0o700))
	t.Chdir(project)
	// The kernel's name for it, in case the temporary folder is behind a link.
	project, err := os.Getwd()
	require.NoError(t, err)
	want := filepath.Join(project, DefaultDir)
	if os.Geteuid() == 0 {
		want = fallbackDir(want)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(want)) })
	}
	server := start(t, Config{})
	require.Equal(t, want, server.Dir())
	require.Equal(t, want+"/data", answer(t, server, "SHOW data_directory"))
	stop(t, server)
	require.Equal(t, want, start(t, Config{}).Dir())
}

func TestDataOfAnotherVersionIsNotTouched(t *testing.T) {
	config := Config{Dir: filepath.Join(publicDir(t), "postgres")}
	server := start(t, config)
	answer(t, server, "CREATE TABLE kept AS SELECT 42 AS id")
	version := server.Version()
	stop(t, server)
	config.Version = MinVersion
	if version == MinVersion {
		config.Version = MaxVersion
	}
	_, err := Start(t.Context(), config)
	require.ErrorContains(t, err, "version: the data in "+server.Dir()+" is of version")
	config.Version = version
	require.Equal(t, "42", answer(t, start(t, config), "SELECT id FROM kept"))
}
