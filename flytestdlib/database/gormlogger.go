package database

import (
	"context"
	"regexp"
	"strings"
	"time"

	gormlog "gorm.io/gorm/logger"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// slowStatement is how long a statement may take before it is worth a warning. Far above a round trip, far below a user's patience.
const slowStatement = time.Second

// statementShown is how many characters of a slow statement the line has: enough to know it by.
const statementShown = 300

// gormParameter is $1 in a statement whose values are left out.
var gormParameter = regexp.MustCompile(`\$(\d+)\$`)

// slowLines writes about slow statements. When the database is slow or does not answer, all of them are.
var slowLines logger.Fold

// gormLogger writes gorm's messages to the service's log. Statements that fail are among them only if that took long: their error goes to the
// caller, who knows whether it is one. Without statements, SQL is logged with placeholders, since values may be user data.
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
	took := time.Since(begin).Round(time.Microsecond)
	slow := took >= slowStatement
	if !slow && !l.statements {
		return
	}
	sql, rows := statement()
	if l.statements {
		logger.Debugf(ctx, "statement: %s, %d rows, error %v: %s", took, rows, err, sql)
	} else {
		// One line, the parameters as PostgreSQL spells them, and no value in it that this could change.
		sql = gormParameter.ReplaceAllString(strings.Join(strings.Fields(sql), " "), "$$$1")
	}
	switch {
	case !slow:
	case err != nil:
		slowLines.Warnf(ctx, "failed", "slow statement: failed after %s, the wait for a connection included: %v: %.*s", took, err, statementShown, sql)
	default:
		slowLines.Warnf(ctx, "done", "slow statement: %s, the wait for a connection included, %d rows: %.*s", took, rows, statementShown, sql)
	}
}

// ParamsFilter keeps the values out of the text that Trace gets.
func (l gormLogger) ParamsFilter(_ context.Context, sql string, params ...any) (string, []any) {
	if l.statements {
		return sql, params
	}
	return sql, nil
}
