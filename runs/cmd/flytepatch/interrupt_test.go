package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInterrupt_LeavesNothing(t *testing.T) {
	dir := flyte(t)
	before := snapshot(t, dir)
	self, err := os.Executable()
	require.NoError(t, err)

	started := func(t *testing.T) (*exec.Cmd, io.Reader) {
		cmd := exec.Command(self, "--flyte", dir, "--apply", "--out", filepath.Join(t.TempDir(), "patches"))
		cmd.Env = append(os.Environ(), asCommand+"=1")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		return cmd, out
	}
	interrupted := func(t *testing.T, cmd *exec.Cmd) {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Process.Signal(syscall.SIGTERM) // impatience changes nothing
		err := cmd.Wait()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, exitInterrupted, exit.ExitCode())
		assertUnchanged(t, before, dir)
	}

	t.Run("while the first commit is made", func(t *testing.T) {
		cmd, _ := started(t)
		require.Eventually(t, func() bool {
			made, err := filepath.Glob(filepath.Join(os.TempDir(), "flytepatch-*", "flytepatch-*", "go.mod"))
			return err == nil && len(made) > 0
		}, time.Minute, time.Millisecond)
		interrupted(t, cmd)
	})
	t.Run("between commits", func(t *testing.T) {
		cmd, out := started(t)
		_, err := bufio.NewReader(out).ReadString('\n') // the first commit
		require.NoError(t, err)
		interrupted(t, cmd)
	})
}
