// Package service answers the RPCs of the runs service: EventsProxyService and InternalRunService, through which executors and
// controllers report, and RunService, through which everybody else looks and aborts.
//
// It turns messages into rows and rows into messages, and leaves storing and waking to runs/repository/interfaces. It knows Connect
// and no database.
//
// The way of a request, outside in:
//
//	unknown method → unimplemented     (mount.go)
//	rpc.server.duration                (otelconnect)
//	panic → internal, one log line     (interceptors.go)
//	deadline; error → code             (interceptors.go, errors.go)
//	constraints of the .proto files    (connectrpc.com/validate)
//	the method
//
// A watch subscribes first and reads second, so that no change falls between the two; a change may then be shown twice, and what is
// shown is always the row as it was when it was read. Each watch has its own goroutines and its own queue, and blocks
// nobody but itself; when the client leaves, or when Drain is called, it gives back everything before the RPC returns.
package service
