package pgnotify_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// A service announces its changes: writers add, one goroutine sends.
func ExamplePump() {
	dsn, release := pgnotify.DatabaseForExample()
	defer release()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// Somebody listens.
	watcher, err := pgx.Connect(ctx, dsn)
	if err != nil {
		panic(err)
	}
	defer watcher.Close(ctx)
	if _, err := watcher.Exec(ctx, "LISTEN orders"); err != nil {
		panic(err)
	}

	pump, err := pgnotify.NewPump("orders")
	if err != nil {
		panic(err)
	}
	sender, err := pgnotify.NewSender(pgnotify.SenderConfig{DSN: dsn})
	if err != nil {
		panic(err)
	}

	// Added before the loop runs, so that all of it is one batch: the repeat folds.
	pump.Add("orders", "order 1 paid")
	pump.Add("orders", "order 2 paid")
	pump.Add("orders", "order 1 paid")

	// The loop: take the whole batch of the channel whose turn it is, send it, book what became of it.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for channel := range pump.Due() {
			pump.Settle(sender.Send(ctx, pump.Take(channel)))
		}
	}()

	for range 2 {
		heard, err := watcher.WaitForNotification(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println(heard.Channel+":", heard.Payload)
	}

	// The end: flush, then let go of the connection.
	left, err := pump.Close(ctx)
	<-ended
	fmt.Println("left:", left, err, sender.Close())

	counts := pump.Stats("orders")
	fmt.Println("added:", counts.Added, "folded:", counts.Coalesced, "delivered:", counts.Delivered)

	// Output:
	// orders: order 1 paid
	// orders: order 2 paid
	// left: 0 <nil> <nil>
	// added: 3 folded: 1 delivered: 2
}
