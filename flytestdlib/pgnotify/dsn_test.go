package pgnotify

import (
	"context"
	"fmt"
	"testing"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

// The one file that knows where the tests' PostgreSQL comes from: replace it to run the package's plain tests elsewhere.

// testDSN names a database that is the test's own.
func testDSN(t testing.TB) string {
	t.Helper()
	return dbtest.DSN(t)
}

// DatabaseForExample is testDSN for an example, which has no testing.TB; release drops the database.
func DatabaseForExample() (dsn string, release func()) {
	t := &exampleTB{}
	return dbtest.DSN(t), t.release
}

// exampleTB lets an example use what is made for tests. A failure panics, which fails the example.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (t *exampleTB) Context() context.Context       { return context.Background() }
func (t *exampleTB) Helper()                        {}
func (t *exampleTB) Name() string                   { return "Example" }
func (t *exampleTB) Cleanup(f func())               { t.cleanups = append(t.cleanups, f) }
func (t *exampleTB) Logf(string, ...any)            {}
func (t *exampleTB) Errorf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
func (t *exampleTB) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
func (t *exampleTB) FailNow()                       { panic("example failed") }
func (t *exampleTB) release() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}
