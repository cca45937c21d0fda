// Package interfaces says what the runs service's storage does, and how a list of actions is asked for, without saying how it is
// stored: runs/repository/impl implements it on PostgreSQL.
//
// Times are the database's: where a row says when something was created or changed, no replica's own clock is in it.
//
// "Not found" is one condition for every method: a NotFoundError, which names what was looked for and matches sql.ErrNoRows with errors.Is.
package interfaces
