package series

import (
	"bytes"
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
	Listener string // field with the listener
	Postgres string // expression for the connection's settings: "r.dbConfig.Postgres"
	Metrics  string // how package otelutils is imported; empty: nothing is measured yet
	Ahead    bool   // whether the watches read ahead

	config goedit.Field
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
	listener, err := p.fieldOf("*pq.Listener", "*pgnotify.Listener")
	if err != nil {
		return names{}, err
	}
	n.DB, n.Listener, n.config = db.Name, listener.Name, config
	return n, nil
}

// of fills in what belongs to a method.
func (n names) of(fn *goedit.Func) names {
	n.Recv, n.Head = fn.Receiver(), fn.Head()
	if n.Recv == "" {
		n.Recv = "r"
	}
	switch n.Postgres = n.Recv + "." + n.config.Name; {
	case strings.HasSuffix(n.config.Type, "DbConfig"):
		n.Postgres += ".Postgres"
	case strings.HasPrefix(n.config.Type, "*"):
		n.Postgres = "*" + n.Postgres
	}
	if params := fn.Params(); len(params) == 2 {
		n.ID = params[1]
	}
	return n
}

// planPump says what the pump's methods become.
func planPump(p *implPackage) ([]replacement, error) {
	replacements, err := p.plan(
		method{name: "notifyRunUpdate", params: []string{"context.Context", "*common.RunIdentifier"}},
		method{name: "notifyActionUpdate", params: []string{"context.Context", "*common.ActionIdentifier"}},
		startNotifyLoop,
		method{name: "runNotifyLoop", changed: true},
	)
	if err != nil {
		return nil, err
	}
	for _, user := range users(p.files, repoType, "runNotifyLoop") {
		if user != actionFile+": "+goedit.FuncKey(repoType, "startNotifyLoop") {
			return nil, fmt.Errorf("%s uses runNotifyLoop, which only startNotifyLoop is expected to", user)
		}
	}
	return replacements, nil
}

// putPump replaces the serial pump by a batching one.
func putPump(t tree) (removedTests []string, err error) {
	p, err := loadImpl(t)
	if err != nil {
		return nil, err
	}
	replacements, err := planPump(p)
	if err != nil {
		return nil, err
	}
	if removedTests, err = p.replace(replacements, pumpField, pumpElement); err != nil {
		return nil, err
	}
	if err := p.addImports("context", "fmt", engineImport); err != nil {
		return nil, err
	}
	if err := p.save(); err != nil {
		return nil, err
	}
	return removedTests, p.putTemplates("notify.go", "notify_db_test.go", "notify_test.go")
}

// putTemplates adds whole files to the repository's package. They say repo.listener, however the field is called.
func (p *implPackage) putTemplates(files ...string) error {
	for _, name := range files {
		content, err := template("impl/" + name)
		if err != nil {
			return err
		}
		content = bytes.ReplaceAll(content, []byte("repo.listener."), []byte("repo."+p.names.Listener+"."))
		if err := p.tree.create(implDir+"/"+name, content); err != nil {
			return err
		}
	}
	return nil
}
