package bench

import "syscall"

// attributes let a Ctrl-C reach only us, who end the service after the load, and let it end with us when we are killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
