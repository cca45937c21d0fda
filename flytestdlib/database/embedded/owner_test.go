//go:build unix

package embedded

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asOwner has the test program start a server in the named folder ("-": an ephemeral one), tell about it, and wait for the end of its
// input before it stops it.
const asOwner = "EMBEDDED_TEST_AS_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asOwner); dir != "" {
		os.Exit(own(dir))
	}
	goleak.VerifyTestMain(m)
}

func own(dir string) int {
	options := []Option{WithoutSync()}
	if dir == "-" {
		dir, options = "", []Option{Ephemeral()}
	}
	server, err := Start(context.Background(), Config{Dir: dir}, options...)
	if err != nil {
		fmt.Printf("error: %v\n", err)
		return 1
	}
	fmt.Println(server.PID(), server.Port(), server.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := server.Stop(context.Background()); err != nil {
		fmt.Printf("error: %v\n", err)
		return 1
	}
	return 0
}

// owner is another process that has a server.
type owner struct {
	cmd       *exec.Cmd
	input     io.Closer
	pid, port int
	dir       string
}

// startOwner starts such a process, under another account if one is given.
func startOwner(t *testing.T, dir string, as *account) *owner {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	if as != nil {
		content, err := os.ReadFile(program)
		require.NoError(t, err)
		program = filepath.Join(publicDir(t), "owner.test")
		require.NoError(t, os.WriteFile(program, content, 0o755))
	}
	cmd := exec.Command(program)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), asOwner+"="+dir, "HOME=/nonexistent")
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = as.attributes()
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	o := &owner{cmd: cmd, input: input}
	t.Cleanup(o.kill)
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	fields := strings.Fields(line)
	require.False(t, strings.HasPrefix(line, "error:"), line)
	require.Len(t, fields, 3)
	o.pid, err = strconv.Atoi(fields[0])
	require.NoError(t, err)
	o.port, err = strconv.Atoi(fields[1])
	require.NoError(t, err)
	o.dir = fields[2]
	return o
}

func (o *owner) kill() {
	_ = o.cmd.Process.Signal(syscall.SIGKILL)
	_ = o.cmd.Wait()
	_ = o.input.Close()
}

// publicDir is a folder that every account can enter, which t.TempDir is not.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "embedded-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
