//go:build unix

package embedded

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// patience is for what normally takes well under a second.
const patience = 60 * time.Second

func start(t *testing.T, config Config, options ...Option) *Server {
	t.Helper()
	server, err := Start(t.Context(), config, append(options, WithoutSync())...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

func stop(t *testing.T, server *Server) {
	t.Helper()
	require.NoError(t, server.Stop(t.Context()))
	require.Empty(t, server.Processes())
}

// answer runs one statement and returns the first column of its first row as text.
func answer(t *testing.T, server *Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	require.NoError(t, err)
	if len(results) == 0 || len(results[0].Rows) == 0 {
		return ""
	}
	return string(results[0].Rows[0][0])
}

func TestDataStaysBetweenStarts(t *testing.T) {
	config := Config{Dir: filepath.Join(publicDir(t), "a deep", "folder, with ' in its name and a total length beyond what a unix socket's name may have", "postgres")}
	server, err := Start(t.Context(), config)
	require.NoError(t, err)
	require.Equal(t, "on", answer(t, server, "SHOW fsync"))
	answer(t, server, "CREATE TABLE kept AS SELECT 42 AS id")
	stop(t, server)
	require.Equal(t, "42", answer(t, start(t, config), "SELECT id FROM kept"))
}

func TestServerIsPrivate(t *testing.T) {
	server := start(t, Config{}, Ephemeral(), WithCredentials("somebody", "it's a \\ secret"), WithSettings(map[string]string{"max_connections": "23"}))
	require.Equal(t, "127.0.0.1", answer(t, server, "SHOW listen_addresses"))
	require.Equal(t, "", answer(t, server, "SHOW unix_socket_directories"))
	require.Equal(t, "23", answer(t, server, "SHOW max_connections"))
	require.Equal(t, "0", answer(t, server, "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'"))
	require.Equal(t, "somebody", answer(t, server, "SELECT current_user"))
	info, err := os.Stat(server.folder.data())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoFileExists(t, filepath.Join(server.Dir(), "password"))
	group, err := syscall.Getpgid(server.PID())
	require.NoError(t, err)
	require.Equal(t, server.PID(), group, "a Ctrl-C in our terminal would end the server before its users")
}

func TestEphemeralServerLeavesNothing(t *testing.T) {
	server := start(t, Config{}, Ephemeral())
	require.Equal(t, "off", answer(t, server, "SHOW fsync"))
	require.DirExists(t, server.Dir())
	stop(t, server)
	require.NoDirExists(t, server.Dir())
}

func TestFreePortsDiffer(t *testing.T) {
	first, second := start(t, Config{}, Ephemeral()), start(t, Config{}, Ephemeral())
	require.NotEqual(t, first.Port(), second.Port())
	require.NotEqual(t, answer(t, first, "SHOW data_directory"), answer(t, second, "SHOW data_directory"))
}

func TestOtherCredentialsThanTheDatasAreNamedWithoutThePassword(t *testing.T) {
	config := Config{Dir: filepath.Join(publicDir(t), "postgres")}
	stop(t, start(t, config, WithCredentials("postgres", "first-secret")))
	_, err := Start(t.Context(), config, WithCredentials("postgres", "second-secret"))
	require.ErrorContains(t, err, "was made for another user or password")
	require.NotContains(t, err.Error(), "second-secret")
	answer(t, start(t, config, WithCredentials("postgres", "first-secret")), "SELECT 1")
}

func TestAnErrorQuotesTheServersLog(t *testing.T) {
	_, err := Start(t.Context(), Config{}, Ephemeral(), WithSettings(map[string]string{"no_such_setting": "1"}))
	require.ErrorContains(t, err, "the server ended while it started")
	require.ErrorContains(t, err, `unrecognized configuration parameter "no_such_setting"`)
}

func TestOneServerPerFolder(t *testing.T) {
	config := Config{Dir: filepath.Join(publicDir(t), "postgres")}
	server := start(t, config)
	_, err := Start(t.Context(), config)
	require.ErrorContains(t, err, "in use by process")
	require.ErrorContains(t, err, server.Dir())
	answer(t, server, "SELECT 1")
}

func TestATakenPortIsNamed(t *testing.T) {
	stranger, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, stranger.Close()) }()
	port := stranger.Addr().(*net.TCPAddr).Port
	config := Config{Dir: filepath.Join(publicDir(t), "postgres"), Port: port}

	_, err = Start(t.Context(), config)
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken)
	require.Equal(t, port, taken.Port)
	pid, name := portHolder(port)
	require.Equal(t, pid, taken.PID)
	require.Equal(t, name, taken.Name)
	if pid != 0 { // where it can be known
		require.Equal(t, os.Getpid(), pid)
		require.ErrorContains(t, err, "is taken by process")
	}

	config.Port = 0
	answer(t, start(t, config), "SELECT 1")
}

func TestStopEndsAServerThatDoesNotListenToReason(t *testing.T) {
	server := start(t, Config{StopTimeout: time.Second}, Ephemeral())
	for _, pid := range server.Processes() {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	stop(t, server)
}

func TestStopDoesNotWaitLongerThanItsContext(t *testing.T) {
	server := start(t, Config{StopTimeout: time.Hour}, Ephemeral())
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.NoError(t, server.Stop(ctx))
	require.Empty(t, server.Processes())
}

func TestDoneTellsThatTheServerEndedByItself(t *testing.T) {
	config := Config{Dir: filepath.Join(publicDir(t), "postgres")}
	server := start(t, config)
	answer(t, server, "CREATE TABLE kept AS SELECT 42 AS id")
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGKILL))
	select {
	case <-server.Done():
	case <-time.After(patience):
		t.Fatal("not noticed")
	}
	stop(t, server)
	require.Equal(t, "42", answer(t, start(t, config), "SELECT id FROM kept"))
}

func TestStartHasADeadline(t *testing.T) {
	bin := fakePrograms(t, map[string]string{
		"postgres": `case "$*" in --version) echo "postgres (PostgreSQL) 16.1";; *) echo "about to hang" >&2; exec sleep 600;; esac`,
		"initdb":   `echo 16 > "$2/PG_VERSION"`,
	})
	_, err := Start(t.Context(), Config{BinDir: bin, StartTimeout: time.Second, StopTimeout: time.Second}, Ephemeral())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "startTimeout (1s)")
	require.ErrorContains(t, err, "about to hang")

	bin = fakePrograms(t, map[string]string{
		"postgres": `echo "postgres (PostgreSQL) 16.1"`,
		"initdb":   `exec sleep 600`,
	})
	_, err = Start(t.Context(), Config{BinDir: bin, StartTimeout: time.Second, StopTimeout: time.Second}, Ephemeral())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "initdb: no answer within startTimeout (1s)")
}

// fakePrograms makes a folder of shell scripts that every account can run.
func fakePrograms(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := publicDir(t)
	for name, body := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	}
	return dir
}

func TestAnInterruptedInitdbIsMadeAgain(t *testing.T) {
	config := Config{Dir: filepath.Join(publicDir(t), "postgres")}
	bin := fakePrograms(t, map[string]string{
		"postgres": `echo "postgres (PostgreSQL) 16.1"`,
		"initdb":   `echo 16 > "$2/PG_VERSION"; echo "no space left" >&2; exit 1`,
	})
	broken := config
	broken.BinDir = bin
	_, err := Start(t.Context(), broken)
	require.ErrorContains(t, err, "no space left")
	answer(t, start(t, config), "SELECT 1")
}

func TestALogThatGrewIsMovedAside(t *testing.T) {
	config := Config{Dir: filepath.Join(publicDir(t), "postgres")}
	server := start(t, config)
	stop(t, server)
	require.NoError(t, os.Truncate(server.folder.log(), logLimit+1))
	server = start(t, config)
	require.FileExists(t, server.folder.log()+".1")
	info, err := os.Stat(server.folder.log())
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(logLimit))
	require.True(t, strings.Contains(server.logTail(), "ready to accept connections"), server.logTail())
}
