package pgnotify

import (
	"context"
	"time"
)

// Change is something that watchers may not have heard of.
type Change struct {
	Channel, Payload string

	// XID is the xmin of the row that tells of the change. With it a Listener can tell that the watchers have heard of it
	// already; 0 means that it is not known, and the change is announced in any case. A row written behind a SAVEPOINT should
	// be given as 0 (its number is that of a subtransaction).
	XID uint32
}

// CatchUp reads one page of what changed. since is by the database's clock: the page must come from the rows whose change is stamped at or
// after it, by the same clock. after is where the page begins: empty for the first one, then whatever was returned as
// next; next is empty on the last page. It is enough to find rows as they are: of several changes of a row, the last.
//
// It runs on another connection than the Listener's own, to the same server (not a standby), each page in a transaction of its own. A pool
// whose connections are kept for ever may go on reading from a server that has been failed over from, and that nobody has stopped.
// A page should be small enough to be read well within ListenerConfig.CatchUpTimeout, after which ctx ends. Rows that
// change between two pages may be missed if that moves them out of the pages to come: they are found by the next sweep.
//
// It may be called from two goroutines at a time.
type CatchUp func(ctx context.Context, since time.Time, after string) (page []Change, next string, err error)
