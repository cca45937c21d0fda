// Package machine says what a measurement ran on: figures mean little without it.
package machine

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Info describes the machine and how busy it was. What the system does not tell is empty.
type Info struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPU  string `json:"cpu,omitempty"`
	CPUs int    `json:"cpus"`
	// Load is the load average over 1, 5 and 15 minutes, our own included. A load that is not ours makes figures worse and, above all,
	// unsteady.
	Load string `json:"loadAverage,omitempty"`
	Go   string `json:"go"`
}

// Describe looks at this machine now.
func Describe() Info {
	return Info{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(),
		CPU: modelName(read("/proc/cpuinfo")), Load: loadAverage(read("/proc/loadavg")),
	}
}

// read returns nothing where there is no such file: on systems other than Linux.
func read(path string) []byte {
	content, _ := os.ReadFile(path)
	return content
}

func modelName(cpuinfo []byte) string {
	lines := bufio.NewScanner(bytes.NewReader(cpuinfo))
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func loadAverage(loadavg []byte) string {
	fields := strings.Fields(string(loadavg))
	if len(fields) < 3 {
		return ""
	}
	return strings.Join(fields[:3], " ")
}

// String is one line for people.
func (i Info) String() string {
	s := fmt.Sprintf("%s/%s, %d × %s, %s", i.OS, i.Arch, i.CPUs, cmp.Or(i.CPU, "CPU"), i.Go)
	if i.Load != "" {
		s += ", load average " + i.Load
	}
	return s
}
