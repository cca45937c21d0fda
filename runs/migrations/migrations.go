// Package migrations holds the schema of the runs service as SQL files.
//
// The files in sql/ are named YYYYMMDDHHMMSS_name.sql and are applied in that order, each once per database, by
// flytestdlib/database.Migrate (which also keeps replicas that start together apart). They carry no down section: a schema that
// went forward stays there, and a file stays plain SQL for any other runner. A file that has been released is never edited;
// what it got wrong is put right by a later one.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed sql/*.sql
var files embed.FS

// FS returns the migration files, at its root.
func FS() fs.FS {
	sub, err := fs.Sub(files, "sql")
	if err != nil {
		// The path is a constant that the embed directive above has already proved to exist.
		panic(err)
	}
	return sub
}
