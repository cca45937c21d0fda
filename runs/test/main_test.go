// Package test holds the end-to-end tests of the runs service: the whole of it, as runs.Run puts it together, on a real PostgreSQL
// behind a proxy that delays and counts, and asked over the wire as any client asks.
package test

import (
	"testing"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

func TestMain(m *testing.M) {
	if serveInstead() {
		return
	}
	dbtest.Main(m)
}
