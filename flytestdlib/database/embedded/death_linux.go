package embedded

import "syscall"

// dieWithParent has the kernel send the child SIGINT, PostgreSQL's fast shutdown, when the thread that starts it is gone: the whole
// process killed by SIGKILL included. The starter must therefore stay on its thread until the child has ended.
func dieWithParent(attributes *syscall.SysProcAttr) {
	attributes.Pdeathsig = syscall.SIGINT
}
