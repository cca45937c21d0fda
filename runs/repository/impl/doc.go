// Package impl keeps runs, actions and events in PostgreSQL, and tells the watchers of every replica when one of them changes.
//
// A change travels like this:
//
//	UpdateActionPhase, …     commits the row
//	  notifyActionUpdate       hands the payload to the pump
//	    pump                     pg_notify, on a connection of its own
//	──────── PostgreSQL ────────
//	  listener                 LISTEN, on a connection of its own, in every replica; catches up from the tables with what it could not hear
//	    backlog                  keeps for a subscriber that is full what it cannot be offered now
//	      processNotifications     offers the payload to every subscriber
//	        WatchActionUpdates, …    read the row and send it to their caller
//	          readAhead, jointReader   read for all of them in common, and what each will ask for next
//
// The payload names what changed and nothing else, so it may come twice, late, or merged with others: whoever gets it reads the row as it is
// then. What must not happen is that it does not come at all: a watcher that misses the last change of an action shows a stale phase
// until something else touches that action, which may be never.
//
// Files: action.go has the plumbing in the picture above, action_*.go and events.go the reads and writes, notify*.go the sending,
// receive*.go the hearing, joint_read.go and read_ahead*.go the reading for watchers.
package impl
