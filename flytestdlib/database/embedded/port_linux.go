//go:build linux && !portable

package embedded

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tcpListen is the state of a listening socket in /proc/net/tcp.
const tcpListen = "0A"

// portHolder finds who listens on port. Only root can tell of other accounts' processes; where it cannot be known it returns 0.
func portHolder(port int) (pid int, name string) {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		addListeners(sockets, table, fmt.Sprintf(":%04X", port))
	}
	descriptors, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil { // only a malformed pattern: a constant above
		panic(err)
	}
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err != nil || !sockets[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(descriptor))
		comm, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			return pid, strings.TrimSpace(string(comm))
		}
	}
	return 0, ""
}

// addListeners collects, in the form that /proc/PID/fd shows them, the listening sockets of one table whose address ends in suffix.
func addListeners(sockets map[string]bool, table, suffix string) {
	file, err := os.Open(table)
	if err != nil {
		return // no IPv6
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[3] == tcpListen {
			sockets["socket:["+fields[9]+"]"] = true
		}
	}
}
