package logger

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// current is the handler of the process. Setup replaces it; a line that is being written keeps the one it began with.
var current atomic.Pointer[slog.Handler]

func init() {
	h := newHandler(FormatText, slog.LevelInfo, os.Stderr)
	current.Store(&h)
}

// Setup sends all further lines to w in the configured form. The error names the field of cfg that holds an unknown name;
// the log then stays as it was. Writes to w are serialized.
func Setup(cfg Config, w io.Writer) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("logger: %w", err)
	}

	severity, err := cfg.Level.severity()
	if err != nil {
		return fmt.Errorf("logger: %w", err)
	}

	h := newHandler(cfg.Format, severity, w)
	current.Store(&h)

	return nil
}

func newHandler(format Format, level slog.Level, w io.Writer) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if format == FormatJSON {
		return slog.NewJSONHandler(w, opts)
	}

	return slog.NewTextHandler(w, opts)
}

// Debugf logs what only somebody who is tracing a fault wants to see. Below the configured level a call costs one
// comparison; the arguments are not formatted.
func Debugf(ctx context.Context, format string, args ...any) {
	logf(ctx, slog.LevelDebug, format, args...)
}

// Infof logs an event of normal operation.
func Infof(ctx context.Context, format string, args ...any) {
	logf(ctx, slog.LevelInfo, format, args...)
}

// Warnf logs something that went wrong and that the process copes with.
func Warnf(ctx context.Context, format string, args ...any) {
	logf(ctx, slog.LevelWarn, format, args...)
}

// Errorf logs a failure that somebody must look at.
func Errorf(ctx context.Context, format string, args ...any) {
	logf(ctx, slog.LevelError, format, args...)
}

func logf(ctx context.Context, level slog.Level, format string, args ...any) {
	if h := *current.Load(); h.Enabled(ctx, level) {
		handle(ctx, h, newRecord(ctx, level, fmt.Sprintf(format, args...)))
	}
}

func newRecord(ctx context.Context, level slog.Level, message string) slog.Record {
	// No program counter: the line would name this function, and finding the caller costs more than the rest.
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.AddAttrs(fieldsOf(ctx)...)

	return record
}

func handle(ctx context.Context, h slog.Handler, record slog.Record) {
	// A log that cannot be written has nowhere to complain.
	_ = h.Handle(ctx, record)
}
