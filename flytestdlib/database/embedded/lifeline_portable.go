//go:build unix && (!linux || portable)

package embedded

import (
	"fmt"
	"os/exec"
	"strconv"
)

// watchdog waits for a process id and then for the end of its input, which comes when we close the pipe or are gone, be it by SIGKILL.
// A closing word means that we closed it ourselves. SIGINT is PostgreSQL's fast shutdown.
const watchdog = `read -r pid || exit 0; read -r word || kill -INT "$pid"`

// run starts cmd, reports the outcome to started, and returns when the command has ended.
//
// The watchdog comes first, so that no more than a few instructions lie between the start of the command and its being watched.
func run(cmd *exec.Cmd, started func(error)) error {
	watch := exec.Command("/bin/sh", "-c", watchdog)
	watch.Dir = "/"
	attributes := *cmd.SysProcAttr
	watch.SysProcAttr = &attributes
	pipe, err := watch.StdinPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		err = fmt.Errorf("watchdog: %w", err)
		started(err)
		return err
	}
	defer func() { _ = watch.Wait() }()
	defer func() { _ = pipe.Close() }()
	if err := cmd.Start(); err != nil {
		started(err)
		return err
	}
	if _, err := pipe.Write([]byte(strconv.Itoa(cmd.Process.Pid) + "\n")); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		err = fmt.Errorf("watchdog: %w", err)
		started(err)
		return err
	}
	started(nil)
	err = cmd.Wait()
	_, _ = pipe.Write([]byte("done\n"))
	return err
}
