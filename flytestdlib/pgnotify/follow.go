package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// probeRole is the end of application_name of the sessions that a follower makes.
const probeRole = "notify-probe"

// followInterval is how often a follower looks. A constant but for the tests.
var followInterval = 30 * time.Second

// errMoved is why a connection is given up that works.
var errMoved = errors.New("connections made now lead to another server")

// serverSQL tells a server from every other, also from its own copy. It is empty on a standby: where nothing can be announced or
// listened to, nobody has to go.
const serverSQL = `SELECT CASE WHEN NOT pg_is_in_recovery() THEN (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint END`

// follower notices that the address of a session leads to another server by now.
//
// A primary that becomes a standby, or ends, takes its sessions along. One that stays up and goes on taking writes keeps them, though
// everybody who connects is led to its successor: nobody fenced it in a failover, or its data moved by logical replication. A
// session that lives there sees nothing wrong, and hears nothing of what happens elsewhere, nor do others hear it. So there is only
// one way to find out: to make another connection.
//
// A connection that cannot be made says nothing. One of these can be under way at a time; follow and stop belong to one goroutine.
type follower struct {
	session     *pgconn.Config
	dialTimeout time.Duration
	stop        func()
}

func newFollower(dsn string, dialTimeout time.Duration) (*follower, error) {
	session, err := sessionConfig(dsn, probeRole, dialTimeout)
	if err != nil {
		return nil, err
	}
	return &follower{session: &session.Config, dialTimeout: dialTimeout, stop: func() {}}, nil
}

// follow looks after a session that has just been made, to the given server, instead of the one before, until stop. It calls moved once, in a
// goroutine that stop waits for, with the last moment when the address led to that server.
func (f *follower) follow(server string, moved func(led time.Time)) {
	f.stop()
	if server == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	f.stop = func() {
		cancel()
		<-ended
	}
	led := time.Now()
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(followInterval):
			}
			asked := time.Now()
			switch now, err := f.probe(ctx); {
			case err != nil || now == "":
			case now == server:
				led = asked
			default:
				moved(led)
				return
			}
		}
	}()
}

// probe returns the server that the address leads to.
func (f *follower) probe(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.dialTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, f.session.Copy())
	if err != nil {
		return "", err
	}
	defer hangUp(conn)
	return serverOf(ctx, conn)
}

// serverOf returns the server that a connection leads to.
func serverOf(ctx context.Context, conn *pgconn.PgConn) (string, error) {
	rows, err := queryRows(ctx, conn, serverSQL)
	if err != nil {
		return "", err
	}
	if len(rows) != 1 {
		return "", fmt.Errorf("the server's start has %d rows", len(rows))
	}
	return rows[0][0], nil
}
