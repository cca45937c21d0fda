package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

type mode string

type notify struct {
	Mode            mode          `yaml:"mode" desc:"how it sends" enum:"serial,off"`
	CatchUpInterval time.Duration `yaml:"catchUpInterval" desc:"time between two sweeps (duration)"`
	ChunkSize       int           `yaml:"chunkSize" desc:"payloads per statement, 1 to 1000"`
	Bytes           int64         `yaml:"bytes" desc:"memory (bytes)"`
	Limit           uint32        `yaml:"limit" desc:"rows"`
	Ratio           float64       `yaml:"ratio" desc:"part, 0 to 1"`
}

func (n notify) Validate() error {
	var errs []error
	if n.ChunkSize < 1 || n.ChunkSize > 1000 {
		errs = append(errs, fmt.Errorf("chunkSize: %d is not in 1 to 1000", n.ChunkSize))
	}
	if n.Ratio < 0 || n.Ratio > 1 {
		errs = append(errs, fmt.Errorf("ratio: %g is not in 0 to 1", n.Ratio))
	}
	return errors.Join(errors.Join(errs...))
}

type config struct {
	Server struct {
		Address string        `yaml:"address" desc:"host:port to listen on"`
		Debug   bool          `yaml:"debug" desc:"say more"`
		Timeout time.Duration `yaml:"timeout" desc:"longest wait (duration)"`
	} `yaml:"server"`
	Runs struct {
		Notify notify `yaml:"notify" desc:"telling the watchers"`
	} `yaml:"runs"`
	Password string `yaml:"password" desc:"kept quiet" secret:"true"`
}

func defaults() config {
	var c config
	c.Server.Address = "127.0.0.1:8090"
	c.Server.Timeout = time.Hour
	c.Runs.Notify = notify{Mode: "serial", CatchUpInterval: 90 * time.Second, ChunkSize: 1000, Bytes: 1 << 40, Limit: 7, Ratio: 0.5}
	c.Password = "s3cr3t"
	return c
}

// load runs Load with a file of the given content (none when empty).
func load(t *testing.T, file string, environ []string, args ...string) (config, string, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		t.Chdir(filepath.Dir(path))
		args = append([]string{"--config", "config.yaml"}, args...)
	}
	c := defaults()
	var help bytes.Buffer
	err := Load(&c, Program{
		Name: "sample", Summary: "shows things", EnvPrefix: "FLYTE", Args: args, Environ: environ, Help: &help,
	})
	return c, help.String(), err
}

func TestPrecedence(t *testing.T) {
	const key = "runs.notify.chunkSize"
	for bits := range 8 {
		file, environ, args, want := "", []string{"PATH=/bin"}, []string(nil), 1000
		if bits&1 != 0 {
			file, want = "runs: {notify: {chunkSize: 1}}", 1
		}
		if bits&2 != 0 {
			environ, want = append(environ, "FLYTE_RUNS_NOTIFY_CHUNKSIZE=2"), 2
		}
		if bits&4 != 0 {
			args, want = []string{"--" + key + "=3"}, 3
		}
		t.Run(fmt.Sprintf("file, env, flag = %03b", bits), func(t *testing.T) {
			c, _, err := load(t, file, environ, args...)
			require.NoError(t, err)
			assert.Equal(t, want, c.Runs.Notify.ChunkSize)
			c.Runs.Notify.ChunkSize = 1000
			assert.Equal(t, defaults(), c, "a source touched what it does not set")
		})
	}
}

func TestEveryTypeFromEverySource(t *testing.T) {
	want := defaults()
	want.Server.Address = "0.0.0.0:80"
	want.Server.Debug = true
	want.Server.Timeout = 1500 * time.Millisecond
	want.Runs.Notify = notify{Mode: "off", CatchUpInterval: time.Minute, ChunkSize: 10, Bytes: 5_000_000_000, Limit: 4_000_000_000, Ratio: 0.25}
	want.Password = "other"

	t.Run("file", func(t *testing.T) {
		c, _, err := load(t, `
server:
  address: 0.0.0.0:80
  debug: true
  timeout: 1.5s
runs:
  notify: {mode: "off", catchUpInterval: 1m, chunkSize: 10, bytes: 5000000000, limit: 4000000000, ratio: 0.25}
password: other
`, nil)
		require.NoError(t, err)
		assert.Equal(t, want, c)
	})
	t.Run("environment", func(t *testing.T) {
		c, _, err := load(t, "", []string{
			"FLYTE_SERVER_ADDRESS=0.0.0.0:80", "FLYTE_SERVER_DEBUG=true", "FLYTE_SERVER_TIMEOUT=1.5s",
			"FLYTE_RUNS_NOTIFY_MODE=off", "FLYTE_RUNS_NOTIFY_CATCHUPINTERVAL=1m", "FLYTE_RUNS_NOTIFY_CHUNKSIZE=10",
			"FLYTE_RUNS_NOTIFY_BYTES=5000000000", "FLYTE_RUNS_NOTIFY_LIMIT=4000000000", "FLYTE_RUNS_NOTIFY_RATIO=0.25", "FLYTE_PASSWORD=other",
		})
		require.NoError(t, err)
		assert.Equal(t, want, c)
	})
	t.Run("flags", func(t *testing.T) {
		c, _, err := load(t, "", nil,
			"--server.address", "0.0.0.0:80", "--server.debug", "--server.timeout", "1.5s",
			"--runs.notify.mode=off", "--runs.notify.catchUpInterval=1m", "--runs.notify.chunkSize=10",
			"--runs.notify.bytes=5000000000", "--runs.notify.limit=4000000000", "--runs.notify.ratio=0.25", "--password=other")
		require.NoError(t, err)
		assert.Equal(t, want, c)
	})
}

func TestAFileWithoutValuesLeavesTheDefaults(t *testing.T) {
	for _, content := range []string{"\n", "# nothing\n", "---\n", "server:\n", "runs:\n  notify:\n"} {
		c, _, err := load(t, content, nil)
		require.NoError(t, err, content)
		assert.Equal(t, defaults(), c)
	}
}

func TestCommentsAnchorsAndAliases(t *testing.T) {
	c, _, err := load(t, "server: &s\n  address: &a here # not there\npassword: *a\n", nil)
	require.NoError(t, err)
	assert.Equal(t, "here", c.Password)
}

func TestTheEnvironmentNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.yaml")
	require.NoError(t, os.WriteFile(path, []byte("server: {address: fromfile}"), 0o600))

	c, _, err := load(t, "", []string{"FLYTE_CONFIG=" + path})
	require.NoError(t, err)
	assert.Equal(t, "fromfile", c.Server.Address)

	c, _, err = load(t, "server: {address: fromflag}", []string{"FLYTE_CONFIG=" + path})
	require.NoError(t, err)
	assert.Equal(t, "fromflag", c.Server.Address, "the flag wins here too")
}

func TestMistakesNameTheKeyAndTheSource(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		environ []string
		args    []string
		want    string
	}{
		"unknown key, file":         {file: "runs:\n  notify:\n    chunksize: 5", want: `config.yaml, line 3: unknown key runs.notify.chunksize (did you mean runs.notify.chunkSize?)`},
		"unknown section, file":     {file: "nonsense: {a: 1}", want: `config.yaml, line 1: unknown key nonsense`},
		"unknown key, environment":  {environ: []string{"FLYTE_SERVER_ADRESS=x"}, want: `unknown environment variable FLYTE_SERVER_ADRESS (did you mean FLYTE_SERVER_ADDRESS?)`},
		"unknown key, flag":         {args: []string{"--server.adress=x"}, want: `unknown flag --server.adress (did you mean server.address?)`},
		"argument":                  {args: []string{"serve"}, want: `unexpected argument "serve"`},
		"bool and a word":           {args: []string{"--server.debug", "false"}, want: `unexpected argument "false"`},
		"flag without value":        {args: []string{"--server.address"}, want: `flag needs an argument: --server.address`},
		"type, file":                {file: "server:\n  debug: yes", want: `server.debug: "yes" is no true or false (config.yaml, line 2)`},
		"type, environment":         {environ: []string{"FLYTE_RUNS_NOTIFY_CHUNKSIZE=many"}, want: `runs.notify.chunkSize: "many" is no whole number (environment variable FLYTE_RUNS_NOTIFY_CHUNKSIZE)`},
		"type, flag":                {args: []string{"--runs.notify.ratio=half"}, want: `runs.notify.ratio: "half" is no number (flag --runs.notify.ratio)`},
		"empty number":              {environ: []string{"FLYTE_RUNS_NOTIFY_LIMIT="}, want: `runs.notify.limit: "" is no whole number (environment variable FLYTE_RUNS_NOTIFY_LIMIT)`},
		"negative unsigned":         {args: []string{"--runs.notify.limit=-1"}, want: `runs.notify.limit: "-1" is no whole number (flag --runs.notify.limit)`},
		"duration without unit":     {file: "server: {timeout: 30}", want: `server.timeout: "30" is no duration such as 500ms, 30s or 5m (config.yaml, line 1)`},
		"enum, file":                {file: "runs: {notify: {mode: fast}}", want: `runs.notify.mode: "fast" is none of serial, off (config.yaml, line 1)`},
		"enum, flag":                {args: []string{"--runs.notify.mode", "Serial"}, want: `runs.notify.mode: "Serial" is none of serial, off (flag --runs.notify.mode)`},
		"range, file":               {file: "runs: {notify: {chunkSize: 0}}", want: `runs.notify.chunkSize: 0 is not in 1 to 1000 (config.yaml, line 1)`},
		"range, environment":        {environ: []string{"FLYTE_RUNS_NOTIFY_CHUNKSIZE=1001"}, want: `runs.notify.chunkSize: 1001 is not in 1 to 1000 (environment variable FLYTE_RUNS_NOTIFY_CHUNKSIZE)`},
		"section for a value":       {file: "server: {address: {host: x}}", want: `config.yaml, line 1: server.address is a value, not a section or list`},
		"list for a value":          {file: "server: {address: [a, b]}", want: `config.yaml, line 1: server.address is a value, not a section or list`},
		"value for a section":       {file: "server: x", want: `config.yaml, line 1: server is a section, not a value`},
		"value for the document":    {file: "hello", want: `config.yaml, line 1: the document is a section, not a value`},
		"no value":                  {file: "server:\n  address:\n", want: `config.yaml, line 2: server.address has no value (write "" for an empty text)`},
		"given twice":               {file: "server:\n  address: a\n  address: b\n", want: `config.yaml, line 3: key server.address is given twice, first in line 2`},
		"two documents":             {file: "server: {}\n---\nserver: {}\n", want: `config.yaml: more than one document`},
		"no YAML":                   {file: "server: [", want: `config.yaml: yaml: line 1`},
		"missing file, flag":        {args: []string{"--config=/nowhere.yaml"}, want: `read the file given by flag --config: open /nowhere.yaml: no such file or directory`},
		"missing file, environment": {environ: []string{"FLYTE_CONFIG=/nowhere.yaml"}, want: `read the file given by environment variable FLYTE_CONFIG: open /nowhere.yaml`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := load(t, c.file, c.environ, c.args...)
			require.Error(t, err)
			assert.Contains(t, err.Error(), "configuration: "+c.want)
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, _, err := load(t, "a: 1\nb: 2\nserver: {debug: maybe}", []string{"FLYTE_X=1"}, "--runs.notify.mode=x")
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), 5, err.Error())

	_, _, err = load(t, "", nil, "--runs.notify.chunkSize=0", "--runs.notify.ratio=2")
	require.Error(t, err)
	assert.Contains(t, err.Error(), "runs.notify.chunkSize: 0 is not in 1 to 1000 (flag --runs.notify.chunkSize)")
	assert.Contains(t, err.Error(), "runs.notify.ratio: 2 is not in 0 to 1 (flag --runs.notify.ratio)")
}

func TestVariablesOfThePlatformAreNotOurs(t *testing.T) {
	c, _, err := load(t, "", []string{
		// What Kubernetes sets for a service named flyte-server with the port 8090, called http.
		"FLYTE_SERVER_SERVICE_HOST=10.0.0.1", "FLYTE_SERVER_SERVICE_PORT=8090", "FLYTE_SERVER_SERVICE_PORT_HTTP=8090",
		"FLYTE_SERVER_PORT=tcp://10.0.0.1:8090", "FLYTE_SERVER_PORT_8090_TCP=tcp://10.0.0.1:8090", "FLYTE_SERVER_PORT_8090_TCP_PROTO=tcp",
		"FLYTE_SERVER_PORT_8090_TCP_PORT=8090", "FLYTE_SERVER_PORT_8090_TCP_ADDR=10.0.0.1",
		// A neighbour with a like name.
		"FLYTEADMIN_X=1", "FLYTE=1",
	})
	require.NoError(t, err)
	assert.Equal(t, defaults(), c)
}

func TestHelp(t *testing.T) {
	c, help, err := load(t, "", nil, "--help", "--server.address=x")
	require.ErrorIs(t, err, ErrHelp)
	assert.Equal(t, defaults(), c)

	for _, k := range keysOf(&c) {
		assert.Contains(t, help, "--"+k.path+" ")
		assert.Contains(t, help, k.desc)
		assert.Contains(t, help, "[FLYTE_"+envName(k.path)+"]")
	}
	assert.Contains(t, help, "  --runs.notify.mode serial|off  (default: serial)\n        how it sends [FLYTE_RUNS_NOTIFY_MODE]\n")
	assert.Contains(t, help, "\nserver\n  --server.address string")
	assert.Contains(t, help, "\nruns.notify: telling the watchers\n  --runs.notify.mode ")
	assert.Contains(t, help, "  --server.timeout duration  (default: 1h)\n")
	assert.Contains(t, help, "  --runs.notify.catchUpInterval duration  (default: 1m30s)\n")
	assert.Contains(t, help, "  --runs.notify.limit int  (default: 7)\n")
	assert.Contains(t, help, "  --server.debug bool  (default: false)\n")
	assert.Contains(t, help, "  --config file  (default: none)\n        YAML file to read [FLYTE_CONFIG]\n")
	assert.NotContains(t, help, "s3cr3t")
}

func TestAnInlinedStructIsPartOfTheSectionAroundIt(t *testing.T) {
	type section struct {
		Inner notify `yaml:",inline"`
		Other string `yaml:"other" desc:"something"`
	}
	c := struct {
		Section section `yaml:"section"`
	}{section{Inner: notify{ChunkSize: 1}}}

	err := Load(&c, Program{EnvPrefix: "FLYTE", Args: []string{"--section.mode=off", "--section.other=x"}})
	require.NoError(t, err)
	assert.Equal(t, mode("off"), c.Section.Inner.Mode)
	assert.Equal(t, "x", c.Section.Other)

	err = Load(&c, Program{EnvPrefix: "FLYTE", Args: []string{"--section.chunkSize=0"}})
	require.EqualError(t, err, "configuration: section.chunkSize: 0 is not in 1 to 1000 (flag --section.chunkSize)")
}

func TestABrokenStructPanics(t *testing.T) {
	type untagged struct{ Ratio float64 }
	assert.PanicsWithValue(t, "config: field Ratio of config.untagged is unexported or has no yaml tag", func() { keysOf(&untagged{}) })
	assert.PanicsWithValue(t, "config: config.untagged is no pointer to a struct", func() { keysOf(untagged{}) })
	assert.PanicsWithValue(t, "config: a has no desc tag", func() {
		keysOf(&struct {
			A string `yaml:"a"`
		}{})
	})
	assert.PanicsWithValue(t, "config: a has the unsupported type []string", func() {
		keysOf(&struct {
			A []string `yaml:"a" desc:"list"`
		}{})
	})
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"mode", "mdoe", 2}, {"mode", "mode", 0}, {"mode", "nodes", 2}} {
		assert.Equal(t, c.want, editDistance(c.a, c.b), "%s %s", c.a, c.b)
	}
}
