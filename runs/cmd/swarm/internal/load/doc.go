// Package load drives a runs service by its RPCs and measures it: runs of many actions, each action taken from QUEUED to
// SUCCEEDED, watched on streams all the while.
//
//	root a0:  RecordAction ─ WatchActions opened ─ children … ─ UpdateActionStatus RUNNING, SUCCEEDED
//	child:    RecordAction ─ UpdateActionStatus INITIALIZING, RUNNING, SUCCEEDED; one event per phase, sent in batches
//
// The client is closed-loop: each of its workers takes one action through all its phases, waiting for every answer, before it
// takes the next. A service that answers slowly therefore gets less load, and the rate is a result, not a setting.
//
// A watcher is one action or run on one stream that is to show its terminal phase. Its lag runs from the answer to the update that
// made the phase terminal until the stream shows it. Streams are not opened again when they break: a watcher must not be rescued
// by the snapshot of a second stream.
package load
