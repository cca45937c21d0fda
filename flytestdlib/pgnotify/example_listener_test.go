package pgnotify_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// A service hears what others announce, and misses nothing while its connection is away.
func ExampleListener() {
	dsn, release := pgnotify.DatabaseForExample()
	defer release()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		panic(err)
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, "CREATE TABLE orders (name text PRIMARY KEY, changed_at timestamptz DEFAULT clock_timestamp())"); err != nil {
		panic(err)
	}

	// The subscribers, and the lock under which they come and go.
	var mu sync.RWMutex
	subscriber := make(chan string, 100)
	subscribers := map[chan string]bool{subscriber: true}
	visitAll := func(visit func(chan string)) {
		mu.RLock()
		defer mu.RUnlock()
		for subscriber := range subscribers {
			visit(subscriber)
		}
	}

	backlog, err := pgnotify.NewBacklog(pgnotify.BacklogConfig{}, map[string]pgnotify.Subscribers{"orders": visitAll})
	if err != nil {
		panic(err)
	}
	listener, err := pgnotify.NewListener(pgnotify.ListenerConfig{
		DSN: dsn,
		// A small table: one page. The connection is another one than the listener's.
		CatchUp: func(ctx context.Context, since time.Time, _ string) (page []pgnotify.Change, next string, err error) {
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				return nil, "", err
			}
			defer conn.Close(ctx)
			rows, err := conn.Query(ctx, "SELECT name, xmin::text::bigint FROM orders WHERE changed_at >= $1", since)
			if err != nil {
				return nil, "", err
			}
			for rows.Next() {
				change, xid := pgnotify.Change{Channel: "orders"}, int64(0)
				if err := rows.Scan(&change.Payload, &xid); err != nil {
					return nil, "", err
				}
				change.XID = uint32(xid)
				page = append(page, change)
			}
			return page, "", rows.Err()
		},
	}, backlog)
	if err != nil {
		panic(err)
	}
	defer listener.Close(ctx)

	// The broadcaster: it waits for nobody, and a full subscriber is none of its business.
	var broadcaster sync.WaitGroup
	defer broadcaster.Wait()
	done := make(chan struct{})
	defer close(done)
	broadcaster.Go(func() {
		for {
			select {
			case notification := <-listener.Notify:
				visitAll(func(subscriber chan string) {
					select {
					case subscriber <- notification.Extra:
					default:
					}
				})
			case <-done:
				return
			}
		}
	})

	// A payload may come more than once; whoever gets it looks at the row, which is as it is.
	waitFor := func(payload string) {
		for got := range subscriber {
			if got == payload {
				fmt.Println(got)
				return
			}
		}
	}

	for listener.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	if _, err := db.Exec(ctx, "SELECT pg_notify('orders', 'order 1 paid')"); err != nil {
		panic(err)
	}
	waitFor("order 1 paid")

	// Written by a process that died before it could announce it, while nobody listened.
	if _, err := db.Exec(ctx, "INSERT INTO orders VALUES ('order 2 paid')"); err != nil {
		panic(err)
	}
	if _, err := db.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%notify-listener'"); err != nil {
		panic(err)
	}
	waitFor("order 2 paid")

	// Output:
	// order 1 paid
	// order 2 paid
}
