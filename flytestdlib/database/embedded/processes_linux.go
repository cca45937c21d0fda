//go:build linux && !portable

package embedded

import (
	"os"
	"path/filepath"
	"strconv"
)

// processesOver returns the processes whose working directory is the data folder: PostgreSQL enters it before anything else, and its
// children stay there. That tells a server of ours from a stranger who got the same process id, and finds orphaned children.
func processesOver(dataDir string) []int {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil { // only a malformed pattern: a constant above
		panic(err)
	}
	var pids []int
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != dataDir {
			continue // gone meanwhile, somebody else's, or elsewhere
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
