package app

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scenarioVariable makes the test program a service that plays one scenario, for tests that send it real signals.
const scenarioVariable = "APP_TEST_SCENARIO"

func runScenario(scenario string) int {
	cfg := testConfig()
	a := New(cfg)
	err := a.Run(context.Background(), func(context.Context) error {
		switch scenario {
		case "clean":
			a.OnClose("resource", func(context.Context) error { fmt.Println("closed"); return nil })
		case "hanging close":
			a.OnClose("resource", func(context.Context) error { fmt.Println("closing"); select {} })
		}
		return nil
	}, func() { fmt.Println("ready") })
	if err != nil {
		return 1
	}
	return 0
}

// process is a child that plays a scenario.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
	log *lockedBuffer
}

func play(t *testing.T, scenario string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0]), log: &lockedBuffer{}}
	p.cmd.Env = append(os.Environ(), scenarioVariable+"="+scenario)
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	watchdog := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	t.Cleanup(func() { watchdog.Stop() })
	p.expect("ready")
	return p
}

func (p *process) expect(line string) {
	p.t.Helper()
	got, err := p.out.ReadString('\n')
	require.NoError(p.t, err, "log: %s", p.log)
	require.Equal(p.t, line, strings.TrimSpace(got))
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

func (p *process) exitCode() int {
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func TestASignalEndsTheProcessInOrder(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := play(t, "clean")
		p.signal(s)
		p.expect("closed")
		assert.Equal(t, 0, p.exitCode(), p.log)
		assert.Contains(t, p.log.String(), "received "+signalNames[s]+": shutting down; once more ends at once")
		assert.Contains(t, p.log.String(), "shutdown: done")
	}
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	for s, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		p := play(t, "hanging close")
		p.signal(syscall.SIGTERM)
		p.expect("closing")
		p.signal(s)
		assert.Equal(t, code, p.exitCode(), p.log)
		assert.Contains(t, p.log.String(), "received "+signalNames[s]+" again: ending at once")
	}
}
