//go:build linux && !portable

package embedded

import (
	"os/exec"
	"runtime"
	"syscall"
)

// run starts cmd, reports the outcome to started, and returns when the command has ended.
//
// The kernel is told to send the command SIGINT, which is PostgreSQL's fast shutdown, when the thread that started it is gone, be it
// with the whole process and by SIGKILL. The thread is therefore held until the command has ended.
func run(cmd *exec.Cmd, started func(error)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	err := cmd.Start()
	started(err)
	if err != nil {
		return err
	}
	return cmd.Wait()
}
