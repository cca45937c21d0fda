package bench

import (
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/embedded"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

// cpuNow is the processor time used so far; nil on a system that does not tell.
func cpuNow(service int, server *embedded.Server) *trial.CPU {
	s, ok := processTime(service, false)
	if !ok {
		return nil
	}
	used := &trial.CPU{Service: s, Client: ownTime()}
	for _, pid := range server.Processes() {
		// The first process has what the ended ones used; one that ends while we look is counted there the next time.
		one, _ := processTime(pid, pid == server.PID())
		used.Database += one
	}
	return used
}

func cpuSince(before, after *trial.CPU) *trial.CPU {
	if before == nil || after == nil {
		return nil
	}
	return &trial.CPU{
		Service: after.Service - before.Service, Database: after.Database - before.Database, Client: after.Client - before.Client,
	}
}

// ticksPerSecond is fixed in what Linux tells in /proc, whatever the kernel itself counts in.
const ticksPerSecond = 100

// processTime is what a process has used, in seconds; withChildren adds what its ended children had.
func processTime(pid int, withChildren bool) (float64, bool) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, false
	}
	stat, err := process.Stat()
	if err != nil {
		return 0, false
	}
	ticks := float64(stat.UTime + stat.STime)
	if withChildren {
		ticks += float64(stat.CUTime + stat.CSTime)
	}
	return ticks / ticksPerSecond, true
}

func ownTime() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
}
