// Package app is the life cycle of a service's process.
package app

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
)

// SetupContext is what a service is set up with and into.
type SetupContext struct {
	DB       *sqlx.DB
	DbConfig database.DbConfig
	Workers  []Worker
}

// Worker runs until its context ends; the process waits for it.
type Worker struct {
	Name string
	Run  func(ctx context.Context) error
}

// AddWorker has the process run it.
func (sc *SetupContext) AddWorker(name string, run func(ctx context.Context) error) {
	sc.Workers = append(sc.Workers, Worker{Name: name, Run: run})
}
