//go:build !linux

package bench

import "syscall"

// attributes let a Ctrl-C reach only us, who end the service after the load.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
