//go:build unix && (!linux || portable)

package embedded

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// processesOver returns the server process that was started over the data folder, by its command line, and its children. Orphaned
// children are not found; PostgreSQL refuses to start while there are any.
func processesOver(dataDir string) []int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	listing, err := exec.CommandContext(ctx, "ps", "-axww", "-o", "pid=,ppid=,stat=,args=").Output()
	if err != nil {
		return nil
	}
	var pids []int
	children := map[int][]int{}
	for line := range strings.Lines(string(listing)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || strings.HasPrefix(fields[2], "Z") {
			continue
		}
		pid, _ := strconv.Atoi(fields[0])
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
		if strings.Contains(fields[3], "postgres") && strings.Contains(line, " -D "+dataDir+" ") {
			pids = append(pids, pid)
		}
	}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}
