package series

import (
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

const (
	aheadMessage = "5-ahead.txt"

	aheadFields = `// Used by readingAhead: what its watchers hear, what reads for all of them, and who hears what.
backlog *pgnotify.Backlog
joint   *jointReader
ahead   watchersAhead`

	// aheadMaker is around what NewActionRepo returns from then on.
	aheadMaker = "newReadingAhead"
	aheadType  = "readingAhead"
)

// aheadFiles are this repository's own.
var aheadFiles = []string{"joint_read.go", "read_ahead.go", "read_ahead_watch.go"}

// aheadDatabase are their declarations that know how this repository reads rows.
var aheadDatabase = []string{"const fetchRowsSQL", "method actionRepo.fetchRows", "type textArray", "method textArray.Value"}

// aheadNames are how the series calls what they use of this repository.
var aheadNames = map[string]string{
	"runUpdatesChannel":    "notifyChannelRuns",
	"actionUpdatesChannel": "notifyChannelActions",
	"runKey":               "notifyRunKey",
	"subscriberCapacity":   "notifySubscriberSlots",
}

// largeColumns are what the reading in common measures rows by.
var largeColumns = []string{"action_spec", "action_details", "detailed_info", "run_spec"}

// readers are the methods by which the watches read a row.
var readers = []struct {
	method
	channel, key string // how the series calls what its payload is built of
}{
	{method{name: "GetRun", params: []string{"context.Context", "*common.RunIdentifier"}, results: []string{"*models.Run", "error"}}, "notifyChannelRuns", "notifyRunKey"},
	{method{name: "GetAction", params: []string{"context.Context", "*common.ActionIdentifier"}, results: []string{"*models.Action", "error"}}, "notifyChannelActions", "notifyActionKey"},
}

// watches are what a decorator is put before.
var watches = []method{
	{name: "WatchRunUpdates", params: []string{"context.Context", "*common.RunIdentifier", "chan<- *models.Run", "chan<- error"}},
	{name: "WatchAllRunUpdates", params: []string{"context.Context", "chan<- *models.Run", "chan<- error"}},
	{name: "WatchAllActionUpdates", params: []string{"context.Context", "*common.RunIdentifier", "chan<- *models.Action", "chan<- error"}},
	{name: "WatchActionUpdates", params: []string{"context.Context", "*common.ActionIdentifier", "chan<- *models.Action", "chan<- error"}},
}

// checkAhead refuses a checkout where the watches, or what they read with, are others than the reading ahead is made for.
func checkAhead(t tree, p *implPackage) error {
	for _, r := range readers {
		fn, err := p.require(r.method)
		if err != nil {
			return err
		}
		if slices.Contains(fn.Params(), "_") {
			return fmt.Errorf("%s: %s has a parameter without a name", actionFile, fn.Key())
		}
	}
	for _, watch := range watches {
		if _, err := p.require(watch); err != nil {
			return err
		}
	}
	maker := p.action.Func("", repoMaker)
	if maker == nil {
		return missing(goedit.FuncKey("", repoMaker))
	}
	if !sameTypes(maker.ResultTypes(), []string{"interfaces.ActionRepo", "error"}) {
		return otherSignature(maker)
	}
	if !slices.ContainsFunc(maker.Returns(), func(results []string) bool { return len(results) == 2 && results[0] != "nil" }) {
		return fmt.Errorf("%s: %s has no return statement with a repository", actionFile, maker.Key())
	}
	for _, field := range p.action.Fields(repoType) {
		if field.Name == "backlog" || field.Name == "joint" || field.Name == "ahead" {
			return fmt.Errorf("%s: type %s has a field %s already", actionFile, repoType, field.Name)
		}
	}
	return checkLargeColumns(t)
}

// checkLargeColumns refuses a checkout none of whose migrations names a column that the reading in common asks for.
func checkLargeColumns(t tree) error {
	names, err := migrationFiles(t)
	if err != nil {
		return err
	}
	var all []byte
	for _, name := range names {
		content, err := t.read(name)
		if err != nil {
			return err
		}
		all = append(all, content...)
	}
	for _, column := range largeColumns {
		if !regexp.MustCompile(`\b` + column + `\b`).Match(all) {
			return fmt.Errorf("%s: no migration has the column %s of actions", migrationDir, column)
		}
	}
	return nil
}

// putAhead has the watches read in common, and ahead.
func putAhead(t tree, source Source) error {
	p, err := loadImpl(t)
	if err != nil {
		return err
	}
	if err := checkAhead(t, p); err != nil {
		return err
	}
	p.names.Metrics, p.names.Ahead = p.action.ImportName(otelutilsImport), true
	replacements, err := p.plan(startPostgresListener)
	if err != nil {
		return err
	}
	if _, err := p.replace(replacements, aheadFields, ""); err != nil {
		return err
	}
	for _, r := range readers {
		params := p.action.Func(repoType, r.name).Params()
		err := p.action.Prepend(repoType, r.name, fmt.Sprintf("if row := readAheadFor(%s, %s, %s(%s)); row != nil {\n\treturn row, nil\n}", params[0], r.channel, r.key, params[1]))
		if err != nil {
			return err
		}
	}
	if err := p.action.WrapResult("", repoMaker, aheadMaker); err != nil {
		return err
	}
	for _, file := range p.everyFile() {
		if err := file.AssertOther(repoType, aheadType, repoType); err != nil {
			return err
		}
	}
	if err := p.save(); err != nil {
		return err
	}
	if err := putAheadFiles(t, source); err != nil {
		return err
	}
	return p.putTemplates("read_ahead_rows.go", "read_ahead_test.go")
}

// putAheadFiles copies what is the same here and there.
func putAheadFiles(t tree, source Source) error {
	database := slices.Clone(aheadDatabase)
	for _, name := range aheadFiles {
		file, err := source.tree.parse(path.Join(implDir, name))
		if err != nil {
			return err
		}
		for _, key := range file.Decls() {
			if at := slices.Index(database, key); at >= 0 {
				database = slices.Delete(database, at, at+1)
				if err := file.RemoveDecl(key); err != nil {
					return err
				}
			}
		}
		if err := file.RenameNames(aheadNames); err != nil {
			return err
		}
		if err := file.DropUnusedImports(); err != nil {
			return err
		}
		content, err := file.Finish()
		if err != nil {
			return err
		}
		if err := t.create(file.Path(), content); err != nil {
			return err
		}
	}
	if len(database) > 0 {
		return fmt.Errorf("%s: %s is in none of %v", implDir, database[0], aheadFiles)
	}
	return nil
}
