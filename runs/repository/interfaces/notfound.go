package interfaces

import "database/sql"

// NotFoundError is the error of a method that was asked for something that is not there. errors.Is takes it for sql.ErrNoRows, whose
// words about result sets it leaves out: it is what a client may read, whatever was wrapped around it on the way.
type NotFoundError struct {
	What string // "run", "action", "event"
	Key  string // which one: project/domain/run, project/domain/run/action
}

func (e *NotFoundError) Error() string { return e.What + " not found: " + e.Key }

// Is makes "not found" one condition, that of database/sql.
func (e *NotFoundError) Is(target error) bool { return target == sql.ErrNoRows }
