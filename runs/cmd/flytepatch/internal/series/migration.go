package series

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"regexp"
	"time"
)

const (
	migrationDir  = "runs/migrations/sql"
	migrationName = "notify_catch_up_indexes"
	// migrationTime is how a migration's file name begins.
	migrationTime = "20060102150405"
)

var migrationFile = regexp.MustCompile(`^\d{14}_.*\.sql$`)

// migrationFiles are the migrations, in no particular order; there is at least one.
func migrationFiles(t tree) ([]string, error) {
	entries, err := os.ReadDir(t.abs(migrationDir))
	if err != nil {
		return nil, fmt.Errorf("%s: the migrations are missing: %w", migrationDir, err)
	}
	var names []string
	for _, entry := range entries {
		if migrationFile.MatchString(entry.Name()) {
			names = append(names, path.Join(migrationDir, entry.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no file is named YYYYMMDDHHMMSS_name.sql", migrationDir)
	}
	return names, nil
}

// newestMigration is the migration that is applied last.
func newestMigration(t tree) (newest string, at time.Time, err error) {
	names, err := migrationFiles(t)
	if err != nil {
		return "", time.Time{}, err
	}
	for _, name := range names {
		stamp, err := time.Parse(migrationTime, path.Base(name)[:len(migrationTime)])
		if err != nil {
			return "", time.Time{}, fmt.Errorf("%s: its name does not begin with a time: %w", name, err)
		}
		if stamp.After(at) {
			newest, at = name, stamp
		}
	}
	return newest, at, nil
}

// putMigration adds the series' migration behind the newest one, a minute later: the same series comes out whenever it is made.
func putMigration(t tree) error {
	newest, at, err := newestMigration(t)
	if err != nil {
		return err
	}
	content, err := template("migration.sql")
	if err != nil {
		return err
	}
	// Whatever applies them there: a runner that wants a mark in front finds it in the others.
	if other, err := t.read(newest); err != nil {
		return err
	} else if mark := []byte("-- +goose Up\n"); bytes.HasPrefix(other, mark) {
		content = append(mark, content...)
	}
	return t.create(path.Join(migrationDir, at.Add(time.Minute).Format(migrationTime)+"_"+migrationName+".sql"), content)
}
