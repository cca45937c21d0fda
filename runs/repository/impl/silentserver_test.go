package impl

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// silentServer is a port that accepts connections and never answers; it returns a connection string for it.
func silentServer(t testing.TB) string {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = server.Close()
		wg.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=x sslmode=disable", server.Addr().(*net.TCPAddr).Port)
}

// silentListener never gets as far as listening.
func silentListener(t testing.TB) *pgnotify.Listener {
	t.Helper()
	backlog, err := pgnotify.NewBacklog(pgnotify.BacklogConfig{}, map[string]pgnotify.Subscribers{"x": func(func(chan string)) {}})
	require.NoError(t, err)
	l, err := pgnotify.NewListener(pgnotify.ListenerConfig{DSN: silentServer(t)}, backlog)
	require.NoError(t, err)
	return l
}
