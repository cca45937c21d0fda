// Package logger writes the process' log: leveled lines with structured fields that travel in the context.
//
// A message is a format and its arguments; what an operator wants to filter by (run, channel, attempt) goes into fields
// with [WithFields]. Before [Setup] the log is text on standard error from level info up, so that a library or a test needs
// no preparation. All functions may be called from any goroutine. Lines that a fault makes come by the thousand go through a [Fold]; whoever
// ends the process calls [Flush] before.
//
// The package knows log/slog and nothing else of this project; libraries that are carried elsewhere may import it.
package logger
