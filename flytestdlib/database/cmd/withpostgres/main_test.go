//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asCommand has the test program be the command itself.
const asCommand = "WITHPOSTGRES_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func withpostgres(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), self(t), args...)
	cmd.Env = append(os.Environ(), asCommand+"=yes")
	return cmd
}

// unused returns a port that nobody listens on.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

func listens(port string) bool {
	conn, err := net.DialTimeout("tcp4", "127.0.0.1:"+port, 5*time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func TestTheCommandHasAServerAndItsExitCodeIsTheResult(t *testing.T) {
	port := unused(t)
	// The inner one finds the outer one's server and does not stop it.
	script := fmt.Sprintf(`"$0" -port %s -- sh -c 'exit 3'; echo "inner: $?"; "$0" -port %s -- sh -c 'kill -TERM $$'; echo "killed: $?"; cat; exit 7`, port, port)
	cmd := withpostgres(t, "-port", port, "--", "sh", "-c", script, self(t))
	cmd.Stdin = strings.NewReader("from stdin\n")
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	require.Equal(t, "inner: 3\nkilled: 143\nfrom stdin\n", out.String(), "%v %s", err, log.String())
	require.Equal(t, 7, cmd.ProcessState.ExitCode())
	require.Equal(t, 1, strings.Count(log.String(), "embedded postgresql"), log.String())
	require.False(t, listens(port))
}

func TestASignalReachesTheCommandAndTheServerOutlivesIt(t *testing.T) {
	port := unused(t)
	cmd := withpostgres(t, "-port", port, "--", "sh", "-c", `trap 'echo got it; exit 9' TERM; echo ready; while :; do sleep 0.05; done`)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	require.Equal(t, "ready", lines.Text())
	require.True(t, listens(port))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.True(t, lines.Scan())
	require.Equal(t, "got it", lines.Text())
	require.Error(t, cmd.Wait())
	require.Equal(t, 9, cmd.ProcessState.ExitCode())
	require.False(t, listens(port))
}

func TestWrongUseIsOneClearLine(t *testing.T) {
	stranger, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { // not a PostgreSQL: hangs up
		for {
			conn, err := stranger.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	defer func() { _ = stranger.Close() }()
	taken := strconv.Itoa(stranger.Addr().(*net.TCPAddr).Port)

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no command":      {[]string{"-port", "15432"}, "usage: withpostgres"},
		"unknown flag":    {[]string{"-prt", "15432"}, "flag provided but not defined: -prt"},
		"unknown command": {[]string{"-port", unused(t), "--", "no-such-command"}, `withpostgres: exec: "no-such-command"`},
		"port taken":      {[]string{"-port", taken, "--", "true"}, "port " + taken + " on 127.0.0.1 is taken by"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := withpostgres(t, test.args...).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), test.want)
		})
	}
}
