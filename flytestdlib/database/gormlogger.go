package database

import (
	"context"
	"time"

	gormlog "gorm.io/gorm/logger"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// slowStatement is how long a statement may take before it is worth a warning. Far above a round trip, far below a user's patience.
const slowStatement = time.Second

// gormLogger writes gorm's messages to the service's log. Failed statements are not among them: their error goes to the caller, who
// knows whether it is one. Without statements, SQL is logged with placeholders, since values may be user data.
type gormLogger struct {
	statements bool // every statement, with its values
}

var (
	_ gormlog.Interface = gormLogger{}
	_ interface {
		ParamsFilter(ctx context.Context, sql string, params ...any) (string, []any)
	} = gormLogger{}
)

// LogMode is for Debug() on one query, which gorm asks for with level Info.
func (l gormLogger) LogMode(level gormlog.LogLevel) gormlog.Interface {
	l.statements = l.statements || level == gormlog.Info
	return l
}

func (gormLogger) Info(ctx context.Context, format string, args ...any) {
	logger.Infof(ctx, "gorm: "+format, args...)
}
func (gormLogger) Warn(ctx context.Context, format string, args ...any) {
	logger.Warnf(ctx, "gorm: "+format, args...)
}
func (gormLogger) Error(ctx context.Context, format string, args ...any) {
	logger.Errorf(ctx, "gorm: "+format, args...)
}

// Trace is called after each statement; what gives its text is expensive and called only if it is logged.
func (l gormLogger) Trace(ctx context.Context, begin time.Time, statement func() (sql string, rows int64), err error) {
	took := time.Since(begin)
	switch {
	case took >= slowStatement:
		sql, rows := statement()
		logger.Warnf(ctx, "slow statement: %s, %d rows, error %v: %s", took, rows, err, sql)
	case l.statements:
		sql, rows := statement()
		logger.Debugf(ctx, "statement: %s, %d rows, error %v: %s", took, rows, err, sql)
	}
}

// ParamsFilter keeps the values out of the text that Trace gets.
func (l gormLogger) ParamsFilter(_ context.Context, sql string, params ...any) (string, []any) {
	if l.statements {
		return sql, params
	}
	return sql, nil
}
