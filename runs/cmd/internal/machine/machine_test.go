package machine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDescribe(t *testing.T) {
	info := Describe()
	assert.Equal(t, runtime.NumCPU(), info.CPUs)
	assert.Contains(t, info.String(), runtime.GOOS+"/"+runtime.GOARCH)
}

func TestWhatLinuxTells(t *testing.T) {
	assert.Equal(t, "Some CPU @ 2 GHz", modelName([]byte("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n")))
	assert.Equal(t, "0.50 1.25 2.00", loadAverage([]byte("0.50 1.25 2.00 1/234 5678\n")))
}

func TestWhatOthersDoNot(t *testing.T) {
	assert.Empty(t, modelName(nil))
	assert.Empty(t, loadAverage(nil))
	assert.Equal(t, "plan9/mips, 1 × CPU, go1", Info{OS: "plan9", Arch: "mips", CPUs: 1, Go: "go1"}.String())
}
