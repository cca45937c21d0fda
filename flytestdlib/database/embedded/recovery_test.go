//go:build unix

package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gone waits until no process works over the folder's data.
func gone(t *testing.T, dir string) {
	t.Helper()
	data := folder{dir: dir}.data()
	require.Eventually(t, func() bool { return len(processesOver(data)) == 0 }, patience, poll, "left behind: %v", processesOver(data))
}

func TestServerEndsWithItsOwner(t *testing.T) {
	t.Run("asked to stop", func(t *testing.T) {
		owner := startOwner(t, filepath.Join(publicDir(t), "postgres"), nil)
		require.NoError(t, owner.input.Close())
		require.NoError(t, owner.cmd.Wait())
		require.Empty(t, processesOver(folder{dir: owner.dir}.data()))
	})
	t.Run("killed", func(t *testing.T) {
		owner := startOwner(t, filepath.Join(publicDir(t), "postgres"), nil)
		require.Contains(t, processesOver(folder{dir: owner.dir}.data()), owner.pid)
		owner.kill()
		gone(t, owner.dir)
	})
}

func TestServerComesUpAgainAtOnceAfterItsOwnerWasKilled(t *testing.T) {
	dir := filepath.Join(publicDir(t), "postgres")
	config := Config{Dir: dir}
	server := start(t, config)
	answer(t, server, "CREATE TABLE kept AS SELECT 42 AS id")
	stop(t, server)
	for range 3 {
		owner := startOwner(t, dir, nil)
		owner.kill()
	}
	require.Equal(t, "42", answer(t, start(t, config), "SELECT id FROM kept"))
}

func TestALeftOverServerIsEnded(t *testing.T) {
	for name, config := range map[string]Config{
		"that obeys":        {},
		"that does not any": {StopTimeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			config.Dir = filepath.Join(publicDir(t), "postgres")
			server := start(t, config)
			answer(t, server, "CREATE TABLE kept AS SELECT 42 AS id")
			stop(t, server)

			// As if by an owner whose death it did not notice.
			leftOver := command(t.Context(), server.run, server.programs.path("postgres"), server.arguments()...)
			require.NoError(t, leftOver.Start())
			waited := make(chan error, 1)
			go func() { waited <- leftOver.Wait() }()
			require.Eventually(t, func() bool { return server.ask(t.Context()) == nil }, patience, poll)
			if config.StopTimeout != 0 {
				require.NoError(t, leftOver.Process.Signal(syscall.SIGSTOP))
			}

			config.Port = server.Port()
			again := start(t, config)
			require.NotEqual(t, leftOver.Process.Pid, again.PID())
			require.Equal(t, "42", answer(t, again, "SELECT id FROM kept"))
			<-waited
		})
	}
}

func TestAStalePidFileThatNamesAStrangerHarmsNeither(t *testing.T) {
	config := Config{Dir: filepath.Join(publicDir(t), "postgres")}
	server := start(t, config)
	content, err := os.ReadFile(server.folder.pidFile())
	require.NoError(t, err)
	stop(t, server)

	stranger := command(t.Context(), server.run, "/bin/sleep", "600")
	require.NoError(t, stranger.Start())
	defer func() {
		require.NoError(t, stranger.Process.Kill(), "the stranger was ended")
		_ = stranger.Wait()
	}()
	former := strconv.Itoa(server.PID())
	require.Equal(t, former, string(content[:len(former)]))
	forged := append([]byte(strconv.Itoa(stranger.Process.Pid)), content[len(former):]...)
	require.NoError(t, os.WriteFile(server.folder.pidFile(), forged, 0o600))
	require.NoError(t, server.run.own(server.folder.pidFile()))

	answer(t, start(t, config), "SELECT 1")
	require.NoError(t, stranger.Process.Signal(syscall.Signal(0)))
}

func TestAnEphemeralServersFolderIsClearedAwayWhenItsOwnerWasKilled(t *testing.T) {
	owner := startOwner(t, "-", nil)
	owner.kill()
	gone(t, owner.dir)
	require.DirExists(t, owner.dir)
	inUse := start(t, Config{}, Ephemeral())
	require.NoDirExists(t, owner.dir)
	start(t, Config{}, Ephemeral())
	answer(t, inUse, "SELECT 1")
}

func TestServerOfAnOrdinaryUser(t *testing.T) {
	// Root changes to an ordinary account for this; an ordinary user already is one.
	var ordinary *account
	dir := publicDir(t)
	if os.Geteuid() == 0 {
		var err error
		ordinary, err = lookupAccount("nobody")
		require.NoError(t, err)
	}
	require.NoError(t, ordinary.own(dir))
	first := startOwner(t, filepath.Join(dir, "postgres"), ordinary)
	uid, _, err := ownerOf(folder{dir: first.dir}.data())
	require.NoError(t, err)
	require.Equal(t, ordinary.id(), uid)
	first.kill()
	second := startOwner(t, filepath.Join(dir, "postgres"), ordinary)
	require.NoError(t, second.input.Close())
	require.NoError(t, second.cmd.Wait())
	gone(t, second.dir)

	// Whoever comes next runs the server as the owner of the data.
	answer(t, start(t, Config{Dir: filepath.Join(dir, "postgres")}), "SELECT 1")
}
