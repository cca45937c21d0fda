package pgnotify

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// transactionPooler is a small connection pooler in transaction mode: one session, which is a client's for one query at a time.
// What the server says in between is said to nobody. It returns a connection string that leads through it.
func transactionPooler(t testing.TB, dsn string) string {
	t.Helper()
	session, err := pgconn.Connect(t.Context(), dsn)
	require.NoError(t, err)
	server, err := session.Hijack()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	var lent sync.Mutex
	query := func(client *pgproto3.Backend, q *pgproto3.Query) error {
		lent.Lock()
		defer lent.Unlock()
		server.Frontend.Send(q)
		if err := server.Frontend.Flush(); err != nil {
			return err
		}
		for {
			answer, err := server.Frontend.Receive()
			if err != nil {
				return err
			}
			client.Send(answer)
			if _, end := answer.(*pgproto3.ReadyForQuery); end {
				return client.Flush()
			}
		}
	}
	serve := func(conn net.Conn) {
		defer conn.Close()
		client := pgproto3.NewBackend(conn, conn)
		if _, err := client.ReceiveStartupMessage(); err != nil {
			return
		}
		client.Send(&pgproto3.AuthenticationOk{})
		client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
		client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
		client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
		client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if client.Flush() != nil {
			return
		}
		for {
			message, err := client.Receive()
			if err != nil {
				return
			}
			if q, is := message.(*pgproto3.Query); is && query(client, q) != nil {
				return
			}
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		_ = server.Conn.Close()
		running.Wait()
	})
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return dsn + " host=127.0.0.1 port=" + port + " sslmode=disable"
}

func TestListenerTellsThatThereIsATransactionPoolerInBetween(t *testing.T) {
	dsn := testDSN(t)
	backlog, err := NewBacklog(BacklogConfig{}, map[string]Subscribers{thingChannel: func(func(chan string)) {}})
	require.NoError(t, err)
	l, err := NewListener(ListenerConfig{DSN: transactionPooler(t, dsn), PingTimeout: patience / 60}, backlog)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(context.Background())) }()
	awaitThat(t, func() error {
		if l.Stats().Failures[ReasonOther] == 0 && l.Stats().Failures[ReasonTimeout] == 0 {
			return l.Ready()
		}
		return nil
	})
	err = l.Ready()
	require.ErrorContains(t, err, "self-test: a notification sent to this session has not arrived within 1s")
	require.ErrorContains(t, err, "connection pooler in transaction mode")
}

func TestListenerTellsThatItListensInAnotherDatabase(t *testing.T) {
	dsn, elsewhere := testDSN(t), testDSN(t)
	listen := func(senderDSN string) *Listener {
		backlog, err := NewBacklog(BacklogConfig{}, map[string]Subscribers{thingChannel: func(func(chan string)) {}})
		require.NoError(t, err)
		l, err := NewListener(ListenerConfig{DSN: dsn, SenderDSN: senderDSN, PingTimeout: patience / 60}, backlog)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Close(context.Background())) })
		return l
	}
	l := listen(elsewhere)
	awaitThat(t, func() error {
		if l.Stats().Failures[ReasonOther] == 0 && l.Stats().Failures[ReasonTimeout] == 0 {
			return l.Ready()
		}
		return nil
	})
	require.ErrorContains(t, l.Ready(), "has not arrived within 1s: the listener needs a DSN that leads to the server and database in which")

	awaitThat(t, listen(dsn).Ready)
	awaitThat(t, listen(dsn+" dbname=missing").Ready) // which the sender has to tell
}
