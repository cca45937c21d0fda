package series

import (
	"fmt"
	"go/ast"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

const pqImport = "github.com/lib/pq"

// listenerTypes are the types of lib/pq that package pgnotify has under the same names, with what processNotifications and its tests
// use of them.
var listenerTypes = map[string]bool{"Listener": true, "Notification": true}

// planReceive says what the listener's start becomes.
func planReceive(p *implPackage) ([]replacement, error) {
	for field, want := range map[string]string{"runSubscribers": "map[chan string]bool", "actionSubscribers": "map[chan string]bool", "mu": "sync.RWMutex"} {
		if err := p.requireField(field, want); err != nil {
			return nil, err
		}
	}
	for _, user := range users(p.files, repoType, "processNotifications") {
		if user != actionFile+": "+goedit.FuncKey(repoType, "startPostgresListener") && user != actionFile+": "+goedit.FuncKey("", repoMaker) {
			return nil, fmt.Errorf("%s uses processNotifications, which only startPostgresListener and %s are expected to", user, repoMaker)
		}
	}
	return p.plan(startPostgresListener)
}

func (p *implPackage) requireField(name, typ string) error {
	for _, field := range p.action.Fields(repoType) {
		if field.Name == name && field.Type == typ {
			return nil
		}
	}
	return fmt.Errorf("%s: type %s has no field %s of type %s", actionFile, repoType, name, typ)
}

// putReceive replaces lib/pq's listener by one that misses nothing.
func putReceive(t tree) (removedTests []string, err error) {
	p, err := loadImpl(t)
	if err != nil {
		return nil, err
	}
	replacements, err := planReceive(p)
	if err != nil {
		return nil, err
	}
	if err := p.action.SetFieldType(repoType, p.names.Listener, "*pgnotify.Listener"); err != nil {
		return nil, err
	}
	if removedTests, err = p.replace(replacements, "", ""); err != nil {
		return nil, err
	}
	// Started by startPostgresListener, again and again; once more beside it would be one too many.
	_, err = p.action.RemoveStatements("", repoMaker, func(stmt ast.Stmt) bool { return goedit.Calls(stmt, "processNotifications") })
	if err != nil {
		return nil, err
	}
	if err := p.replaceTestTypes(pqImport, engineImport, listenerTypes); err != nil {
		return nil, err
	}
	if err := p.addImports("context", "fmt", engineImport); err != nil {
		return nil, err
	}
	if err := p.save(); err != nil {
		return nil, err
	}
	if err := p.putTemplates("notify_catchup.go", "notify_listener.go", "notify_listener_test.go"); err != nil {
		return nil, err
	}
	return removedTests, putMigration(t)
}
