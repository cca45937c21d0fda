package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asService makes the test program the service itself, so that tests can send it real signals.
const asService = "RUNS_TEST_AS_SERVICE"

// patience is how long a test waits for what must come; only a broken test waits that long.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		if err := os.Unsetenv(asService); err != nil {
			panic(err)
		}
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// child is a service in a process of its own.
type child struct {
	t        *testing.T
	cmd      *exec.Cmd
	log      bytes.Buffer
	url      string
	database string // host:port of the embedded server
}

func command(t *testing.T, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0], args...)}
	c.cmd.Env = append(os.Environ(), asService+"=1")
	c.cmd.Stderr = &c.log
	return c
}

var (
	rpcLine      = regexp.MustCompile(`RPCs +(http://\S+)`)
	databaseLine = regexp.MustCompile(`database +\S+ on ([0-9.:]+), embedded`)
)

// start starts a service over the embedded server in dir, and waits until it is ready.
func start(t *testing.T, dir string, args ...string) *child {
	t.Helper()
	c := command(t, append(args, "--server.address=127.0.0.1:0", "--server.metricsAddress=", "--database.embedded.dir="+dir)...)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		if t.Failed() {
			t.Logf("the service's log:\n%s", &c.log)
		}
	})
	watchdog := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer watchdog.Stop()

	said := ""
	for lines := bufio.NewReader(out); c.database == ""; {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, said)
		said += line
		if found := rpcLine.FindStringSubmatch(line); found != nil {
			c.url = found[1]
		}
		if found := databaseLine.FindStringSubmatch(line); found != nil {
			c.database = found[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	return c
}

// end sends a signal and returns the exit code, -1 after SIGKILL.
func (c *child) end(s syscall.Signal) int {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(s))
	watchdog := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer watchdog.Stop()
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func (c *child) post(procedure, body string) string {
	c.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Post(c.url+"/flyteidl2.workflow."+procedure, "application/json", strings.NewReader(body))
	require.NoError(c.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusOK, response.StatusCode, "%s", answer)
	return string(answer)
}

// databaseGone waits until nobody listens on the embedded server's port.
func (c *child) databaseGone() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		conn, err := net.Dial("tcp", c.database)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, patience, 10*time.Millisecond)
}

const (
	recordRun = `{"actionId":{"run":{"org":"o","project":"p","domain":"d","name":"kept"},"name":"a0"},"trace":{}}`
	listRuns  = `{"projectId":{"organization":"o","domain":"d","name":"p"}}`
)

func TestEveryEndLeavesTheDataAndNoServer(t *testing.T) {
	dir := filepath.Join(publicDir(t), "postgres")
	c := start(t, dir)
	c.post("InternalRunService/RecordAction", recordRun)
	assert.Equal(t, -1, c.end(syscall.SIGKILL))
	c.databaseGone()

	c = start(t, dir)
	assert.Contains(t, c.post("RunService/ListRuns", listRuns), `"kept"`)
	assert.Equal(t, 0, c.end(syscall.SIGTERM))
	c.databaseGone()

	c = start(t, dir)
	assert.Contains(t, c.post("RunService/ListRuns", listRuns), `"kept"`)
	assert.Equal(t, 0, c.end(syscall.SIGINT))
	c.databaseGone()
}

func TestAMistakeIsOneLineAndCode2(t *testing.T) {
	c := command(t, "--runs.notify.mode=telepathy")
	require.Error(t, c.cmd.Run())
	assert.Equal(t, 2, c.cmd.ProcessState.ExitCode())
	assert.Equal(t, 1, strings.Count(c.log.String(), "\n"), c.log.String())
	assert.Contains(t, c.log.String(), `runs.notify.mode: "telepathy" is none of `)
}

func TestHelpIsNoMistake(t *testing.T) {
	out, err := command(t, "--help").cmd.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "Usage: runs [flags]")
}

func TestAServiceThatCannotListenFailsWithCode1(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c := command(t, "--server.address="+l.Addr().String())
	require.Error(t, c.cmd.Run())
	assert.Equal(t, 1, c.cmd.ProcessState.ExitCode())
	assert.Contains(t, c.log.String(), "server.address: listen tcp "+l.Addr().String()+": bind: address already in use")
}

// publicDir is a folder that every account can enter, which t.TempDir is not: started as root, the embedded server runs under another.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flyte-runs-")
	require.NoError(t, err)
	t.Cleanup(func() {
		// A server whose owner was just killed may still be writing.
		assert.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, patience, 10*time.Millisecond)
	})
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}
