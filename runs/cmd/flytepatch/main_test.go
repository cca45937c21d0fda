package main

import (
	"os"
	"testing"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
)

// asCommand has the test binary be the command: a process of its own, to be interrupted.
const asCommand = "FLYTEPATCH_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	dbtest.Main(m)
}
