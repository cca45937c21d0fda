// Package app is the life of a service's process: it listens, starts what the service is made of, says when it is ready, and
// takes everything down in order, each step within a deadline.
//
//	listening ──setup done──▶ ready ──signal, or a part failed──▶ draining ──▶ stopping ──▶ closing ──▶ ended
//	   503                     RPCs       not ready, streams told     workers and     what was opened,
//	                                      to end, requests finish     late handlers   last first
//
// /healthz answers 200 in every state: it says that the process lives, not that it is of use, so that a database outage does
// not make an orchestrator restart all replicas. /readyz answers 200 only in the state ready and with every [App.Check]
// passing, else 503 with each check's error.
//
// A first SIGTERM or SIGINT begins the way to the right; a second one ends the process at once with status 128 + signal.
// Whatever exceeds its deadline is named in the log and left behind, so that the end comes within the sum of the deadlines.
//
// The package knows HTTP; it knows nothing of databases or of the service's own RPCs.
package app
