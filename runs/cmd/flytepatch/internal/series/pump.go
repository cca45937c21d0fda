package series

import (
	"fmt"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

const (
	engineImport = module + "/" + engineDir

	pumpField = `// notifyPump holds the keys of what has changed until runNotifyLoop has sent them.
notifyPump *pgnotify.Pump`
	pumpElement = "notifyPump: newNotifyPump()"
)

// names are what the templates fill in: how things are called in the checkout.
type names struct {
	Recv     string // receiver of the methods
	Head     string // of the method at hand, as it is
	ID       string // parameter that identifies a run or an action
	Database string // how package database is imported
	DB       string // field with the *sqlx.DB
	Postgres string // the connection's settings, from the repository on: "dbConfig.Postgres"
}

// commonNames reads the names that do not depend on the method.
func commonNames(p *implPackage) (names, error) {
	n := names{Database: p.action.ImportName(module + "/flytestdlib/database")}
	if n.Database == "" {
		return names{}, fmt.Errorf("%s: it does not import %s/flytestdlib/database", actionFile, module)
	}
	db, err := p.fieldOf("*sqlx.DB")
	if err != nil {
		return names{}, err
	}
	config, err := p.fieldOf("database.DbConfig", "*database.DbConfig", "database.PostgresConfig", "*database.PostgresConfig")
	if err != nil {
		return names{}, err
	}
	n.DB = db.Name
	n.Postgres = config.Name
	if strings.HasSuffix(config.Type, "DbConfig") {
		n.Postgres += ".Postgres"
	}
	return n, nil
}

// of fills in what belongs to a method.
func (n names) of(fn *goedit.Func) names {
	n.Recv, n.Head = fn.Receiver(), fn.Head()
	if n.Recv == "" {
		n.Recv = "r"
	}
	if params := fn.Params(); len(params) == 2 {
		n.ID = params[1]
	}
	return n
}

// putPump replaces the serial pump by a batching one.
func putPump(t tree) (removedTests []string, err error) {
	p, err := loadImpl(t)
	if err != nil {
		return nil, err
	}
	common, err := commonNames(p)
	if err != nil {
		return nil, err
	}
	loop := goedit.FuncKey(repoType, "runNotifyLoop")
	for _, user := range users(p.files, repoType, "runNotifyLoop") {
		if user != actionFile+": "+goedit.FuncKey(repoType, "startNotifyLoop") {
			return nil, fmt.Errorf("%s uses %s, expected it in startNotifyLoop only", user, loop)
		}
	}

	var replacements []replacement
	for _, want := range []struct {
		method  string
		params  []string // nil: whatever they are
		results []string
		changed bool
	}{
		{method: "notifyRunUpdate", params: []string{"context.Context", "*common.RunIdentifier"}},
		{method: "notifyActionUpdate", params: []string{"context.Context", "*common.ActionIdentifier"}},
		{method: "startNotifyLoop", params: []string{}, results: []string{"error"}},
		{method: "runNotifyLoop", changed: true},
	} {
		fn, err := p.method(want.method, want.params, want.results...)
		if err != nil {
			return nil, err
		}
		text, err := declaration(want.method, common.of(fn))
		if err != nil {
			return nil, err
		}
		replacements = append(replacements, replacement{method: want.method, text: text, changed: want.changed})
	}
	if removedTests, err = p.replace(replacements, pumpField, pumpElement); err != nil {
		return nil, err
	}
	for _, needed := range []string{"context", "fmt", engineImport} {
		if err := p.action.AddImport(needed); err != nil {
			return nil, err
		}
	}
	if err := p.save(); err != nil {
		return nil, err
	}
	content, err := template("impl/notify.go")
	if err != nil {
		return nil, err
	}
	return removedTests, t.create(implDir+"/notify.go", content)
}
