// Package pgnotify wakes processes through PostgreSQL's LISTEN and NOTIFY, without ever making a writer wait and
// without losing a wake-up.
//
// A payload names what has changed ("project/domain/run"); it does not carry the change. Whoever hears it reads the row. Two
// payloads that are equal therefore say no more than one, as long as it is sent after the later of the two changes: that is what
// lets repeats fold, batches go out twice, and failures be answered by sending again. What must not happen is that a committed
// change is never announced: its watchers would show a state that is over, until something else touches the row.
//
// # Sending
//
//	writers ──Add──▶ Pending ──Take──▶ batch ──Send──▶ one round trip for up to 1,000 payloads ──▶ PostgreSQL
//	                    ▲                                    │
//	                    └──────── Settle: undelivered ───────┘
//
// [Pump] holds a [Pending] set for each channel and says whose turn it is; [Sender] owns the connection. The loop between them
// is the caller's, three lines long (see the example), so that everything it does is visible where it runs.
//
// A payload is in one of these states:
//
//	         Add              Take               server confirms
//	(none) ───────▶ pending ───────▶ in flight ─────────────────▶ delivered
//	         Add again │  ▲              │  │
//	         (folded)  └──┘              │  └─ server will never take it ──▶ rejected, logged, counted
//	                   ▲                 │
//	                   └── any failure ──┘  to the front, the channel rests 50 ms … 5 s
//
// Promises, each with a test: adding does no I/O and never blocks; a payload that is added while it is in flight is sent
// again; nothing is dropped for having failed, however often; a payload that PostgreSQL will never take costs only
// itself; memory is bounded by the number of different payloads waiting; every wait has a deadline; the counts add up.
//
// # Receiving
//
//	PostgreSQL ──▶ Listener ──▶ log ──▶ Notify ──▶ the caller's broadcaster ──▶ subscribers with room
//	   ▲              │          └──────────────────────────────────────────▶ subscribers that are behind
//	   └── CatchUp ◀──┘
//
// [Listener] keeps the connection that listens, and finds by the caller's [CatchUp] what it could not hear: on every connect, and at an interval
// for changes whose process took their announcement to its grave. [Backlog] stands in front of a broadcaster that offers each
// payload to every subscriber without waiting and drops what does not fit; it keeps what was dropped for whom it was
// dropped. Neither asks the broadcaster or the subscribers to know of them.
//
// The connection is in one of these states; any failure leads to the pause, Close out of everything:
//
//	pause ──▶ connect ──▶ LISTEN ──▶ self-test (once) ──▶ catching up ──▶ ready
//	  ▲        50 ms … 5 s between two attempts            it hears already │
//	  └─────────────────────────────────────────────────────────────────────┘
//
// A wake-up that is lost costs as much as one that is never sent, and there are more ways to lose it: promises, each with a test: nothing that is
// committed is missed for a connection that breaks or is half open, a server that restarts, crashes or fails over, a
// burst of any size, a subscriber that does not read, one that registers late; a subscriber that is slow delays no other; the socket
// is read whatever the subscribers do; memory is bounded by the number of different payloads, and by a limit; what was heard of is
// not announced again by a catch-up.
//
// # Not here
//
// The package knows PostgreSQL and nothing of the service that uses it: no tables, no payload's meaning. It imports the standard
// library, pgx, the OpenTelemetry metric API and the logger, so that any Go service can use it.
package pgnotify
