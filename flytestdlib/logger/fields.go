package logger

import (
	"context"
	"log/slog"
)

type fieldsKey struct{}

// WithFields returns a context whose log lines carry the given key, value pairs after those that ctx has already, as
// slog's functions take them. A key given again appears twice, the inner one last.
func WithFields(ctx context.Context, keysAndValues ...any) context.Context {
	var pairs slog.Record
	pairs.Add(keysAndValues...)

	outer := fieldsOf(ctx)
	fields := make([]slog.Attr, len(outer), len(outer)+pairs.NumAttrs())
	copy(fields, outer)
	pairs.Attrs(func(a slog.Attr) bool {
		fields = append(fields, a)
		return true
	})

	return context.WithValue(ctx, fieldsKey{}, fields)
}

func fieldsOf(ctx context.Context) []slog.Attr {
	fields, _ := ctx.Value(fieldsKey{}).([]slog.Attr)
	return fields
}
