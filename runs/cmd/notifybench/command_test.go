package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

// asCommand has the test binary be the command.
const asCommand = "NOTIFYBENCH_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	dbtest.Main(m)
}

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestErrorsAreOneClearLine(t *testing.T) {
	for want, args := range map[string][]string{
		"dsn: cannot parse `nonsense`":                          {"fanout", "--dsn", "nonsense"},
		"dsn: is empty; leave the flag out":                     {"ceiling", "--dsn", ""},
		"no connection: ":                                       {"stream", "--dsn", "postgres://127.0.0.1:1/d"},
		"listeners: 0 is not between 1 and 10000":               {"fanout", "--listeners", "0"},
		"streams: 5 writers want a stream each, there are 4":    {"stream", "--writers", "5", "--streams", "4"},
		"n: 0 is not between 1 and 100000":                      {"ceiling", "--n", "0"},
		`mode: "both" is none of single, batched`:               {"fanout", "--mode", "single,both"},
		"rtt: -1s is not between 0s and 10s":                    {"ceiling", "--rtt", "-1s"},
		`invalid argument "many" for "--readers" flag: `:        {"stream", "--readers", "many"},
		"unknown flag: --writers":                               {"fanout", "--writers", "1"},
		`unknown command "postgres://a/b" for "notifybench cei`: {"ceiling", "postgres://a/b"},
		`unknown command "all" for "notifybench"`:               {"all"},
	} {
		out, err := execute(t, args...)
		require.Error(t, err)
		assert.Contains(t, oneLine(err), want)
		assert.NotContains(t, oneLine(err), "\n")
		assert.NotContains(t, oneLine(err), ":;")
		assert.Empty(t, out)
	}
}

func TestEveryFlagIsDescribed(t *testing.T) {
	for _, sub := range command().Commands() {
		out, err := execute(t, sub.Name(), "--help")
		require.NoError(t, err)
		check := func(f *pflag.Flag) {
			assert.NotEmpty(t, f.Usage, f.Name)
			assert.Contains(t, out, "--"+f.Name)
		}
		sub.Flags().VisitAll(check)
		command().PersistentFlags().VisitAll(check)
	}
	assert.Equal(t, []string{"ceiling", "fanout", "stream"}, names(command().Commands()))
}

func names(commands []*cobra.Command) (names []string) {
	for _, c := range commands {
		names = append(names, c.Name())
	}
	return names
}

// The ways in which somebody calls it first, at a tiny size: embedded server, tables, and JSON.
func TestTinyRuns(t *testing.T) {
	out, err := execute(t, "ceiling", "--n", "20", "--repeat", "1")
	require.NoError(t, err)
	assert.Contains(t, out, "embedded, empty at the start), fsync=on synchronous_commit=on")
	assert.Contains(t, out, "every notification was heard once")

	dsn := dbtest.DSN(t)
	for _, args := range [][]string{
		{"fanout", "--listeners", "2", "--notifiers", "2", "--channels", "2"},
		{"stream", "--writers", "2", "--streams", "2", "--readers", "2", "--poll", "50ms", "--rtt", "1ms"},
	} {
		out, err := execute(t, append(args, "--dsn", dsn, "--duration", "100ms", "--repeat", "1", "--json")...)
		require.NoError(t, err)
		var report struct {
			Benchmark string
			Machine   struct{ CPUs int }
			Server    struct{ Version, Fsync string }
			Runs      []any
		}
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		assert.Equal(t, args[0], report.Benchmark)
		assert.NotEmpty(t, report.Server.Version)
		assert.NotEmpty(t, report.Runs)
		assert.Positive(t, report.Machine.CPUs)
	}
}

func TestCommandLine(t *testing.T) {
	for want, args := range map[string][]string{
		"notifybench fanout --rtt 4ms":                                                {"fanout", "--rtt", "4ms"},
		"notifybench fanout --dsn postgres://me:xxxxx@db/app":                         {"fanout", "--dsn", "postgres://me:secret@db/app"},
		"notifybench fanout --dsn=postgres://me:xxxxx@db/app":                         {"fanout", "--dsn=postgres://me:secret@db/app"},
		"notifybench fanout --dsn 'host=db password=xxxxx user=me'":                   {"fanout", "--dsn", "host=db password=secret user=me"},
		`notifybench fanout --dsn 'password=xxxxx host=db'`:                           {"fanout", "--dsn", `password='sec ret\'s' host=db`},
		"notifybench fanout '--dsn=password = xxxxx'":                                 {"fanout", "--dsn=password = secret"},
		`notifybench fanout 'it'\''s'`:                                                {"fanout", "it's"},
		"notifybench fanout --dsn 'postgres://db/app?password=xxxxx&sslmode=disable'": {"fanout", "--dsn", "postgres://db/app?password=secret&sslmode=disable"},
	} {
		assert.Equal(t, want, commandLine(append([]string{"/tmp/notifybench"}, args...)))
	}
}
