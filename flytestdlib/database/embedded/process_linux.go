package embedded

import (
	"os"
	"path/filepath"
	"strconv"
)

// processesOver returns the server processes whose working directory is the data folder: PostgreSQL enters it before anything else
// and so do its children. That tells our server from a stranger who got the same process id.
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
