package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

// What a person does who has seen enough: the report of what there is comes, and nothing stays behind.
func TestCtrlC(t *testing.T) {
	dsn := dbtest.DSN(t)
	for name, args := range map[string][]string{
		"stream on somebody's server": {"stream", "--dsn", dsn, "--writers", "2", "--streams", "2", "--readers", "2", "--duration", "1h"},
		"fanout on the embedded":      {"fanout", "--listeners", "2", "--notifiers", "2", "--channels", "2", "--duration", "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			temporary, err := os.MkdirTemp("", "notifybench-test-") // not t's, which lets no other account in
			require.NoError(t, err)
			defer os.RemoveAll(temporary)
			require.NoError(t, os.Chmod(temporary, 0o755)) // the server's account has to get in
			cmd := exec.CommandContext(ctx, os.Args[0], append(args, "--json")...)
			cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temporary)
			var stdout bytes.Buffer
			cmd.Stdout = &stdout
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			awaitLoad(t, stderr)
			require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
			_, _ = new(bytes.Buffer).ReadFrom(stderr)
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Wait(), &exit)
			assert.Equal(t, exitInterrupted, exit.ExitCode())
			var report struct {
				Interrupted bool
				Runs        []any
			}
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &report), stdout.String())
			assert.True(t, report.Interrupted)
			assert.Len(t, report.Runs, 1)
			left, err := os.ReadDir(temporary)
			require.NoError(t, err)
			assert.Empty(t, left, "the embedded server's folder is gone")
		})
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var left int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'notifybench%'").Scan(&left))
	assert.Zero(t, left)
}

var underWay = regexp.MustCompile(`round 1 of 3, \w+: .*(read|received) [1-9]`)

// awaitLoad reads the progress until the first run is under way.
func awaitLoad(t *testing.T, stderr io.Reader) {
	t.Helper()
	var shown bytes.Buffer
	lines := bufio.NewScanner(io.TeeReader(stderr, &shown))
	for lines.Scan() {
		if underWay.MatchString(lines.Text()) {
			return
		}
	}
	require.Fail(t, "no progress was shown", shown.String())
}
