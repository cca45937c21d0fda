package fanout

import (
	"testing"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
