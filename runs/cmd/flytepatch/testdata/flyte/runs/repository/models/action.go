// Package models holds the rows.
package models

import (
	"database/sql"
	"time"
)

// Action is a row of actions.
type Action struct {
	Project          string         `db:"project"`
	Domain           string         `db:"domain"`
	RunName          string         `db:"run_name"`
	Name             string         `db:"name"`
	ParentActionName sql.NullString `db:"parent_action_name"`
	Phase            int32          `db:"phase"`
	CreatedAt        time.Time      `db:"created_at"`
	UpdatedAt        time.Time      `db:"updated_at"`
}

// Run is the root action of a run.
type Run = Action
