package series

import (
	"fmt"
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

const (
	implDir    = "runs/repository/impl"
	actionFile = implDir + "/action.go"
	repoType   = "actionRepo"
	repoMaker  = "NewActionRepo"
)

// consumers are what the change is built around: their source must not change.
var consumers = []string{"processNotifications", "WatchRunUpdates", "WatchAllRunUpdates", "WatchAllActionUpdates", "WatchActionUpdates"}

// implPackage is the repository's package under change.
type implPackage struct {
	tree   tree
	action *goedit.File            // the file with the declarations that are replaced
	files  map[string]*goedit.File // the package without tests, action among them
	tests  map[string]*goedit.File
	before map[string][32]byte // the consumers' hashes as the package was read
	names  names
}

func loadImpl(t tree) (*implPackage, error) {
	p := &implPackage{tree: t, files: map[string]*goedit.File{}, tests: map[string]*goedit.File{}, before: map[string][32]byte{}}
	if !t.exists(actionFile) {
		return nil, fmt.Errorf("%s: the file is missing", actionFile)
	}
	for tests, into := range map[bool]map[string]*goedit.File{false: p.files, true: p.tests} {
		names, err := t.goFiles(implDir, tests)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if into[name], err = t.parse(name); err != nil {
				return nil, err
			}
		}
	}
	p.action = p.files[actionFile]
	for _, name := range consumers {
		key := goedit.FuncKey(repoType, name)
		if p.action.Func(repoType, name) == nil {
			return nil, missing(key)
		}
		digest, err := p.action.Digest(key)
		if err != nil {
			return nil, err
		}
		p.before[key] = digest
	}
	var err error
	p.names, err = commonNames(p)
	return p, err
}

func missing(key string) error { return fmt.Errorf("%s: %s is missing", actionFile, key) }

// save verifies that the consumers are what they were, and writes what changed.
func (p *implPackage) save() error {
	for _, file := range p.everyFile() {
		if file.Changed() {
			if err := file.DropUnusedImports(); err != nil {
				return err
			}
		}
	}
	for key, digest := range p.before {
		now, err := p.action.Digest(key)
		if err != nil {
			return err
		}
		if now != digest {
			return fmt.Errorf("%s: %s would change, and must not", actionFile, key)
		}
	}
	for _, file := range p.everyFile() {
		if len(file.Decls()) == 0 && file.Changed() {
			if err := p.tree.remove(file.Path()); err != nil {
				return err
			}
			continue
		}
		if err := p.tree.save(file); err != nil {
			return err
		}
	}
	return nil
}

func (p *implPackage) everyFile() []*goedit.File {
	return append(inOrder(p.files), inOrder(p.tests)...)
}

func inOrder(files map[string]*goedit.File) []*goedit.File {
	var ordered []*goedit.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		ordered = append(ordered, files[name])
	}
	return ordered
}

// users lists who uses a name in files, as "file: declaration".
func users(files map[string]*goedit.File, owner, name string) []string {
	var found []string
	for _, file := range inOrder(files) {
		for _, key := range file.Mentions(owner, name) {
			found = append(found, file.Path()+": "+key)
		}
	}
	return found
}

// method is a method of the repository that is replaced or changed, and what its callers rely on.
type method struct {
	name    string
	params  []string // types, by their last part; nil: whatever they are
	results []string
	changed bool // the new one has other parameters
}

// What starts the pump and the listener; each step that adds to them replaces them again.
var (
	startNotifyLoop       = method{name: "startNotifyLoop", params: []string{}, results: []string{"error"}}
	startPostgresListener = method{name: "startPostgresListener", params: []string{}, results: []string{"error"}}
)

// plan checks the methods and fills in what they become.
func (p *implPackage) plan(methods ...method) ([]replacement, error) {
	var replacements []replacement
	for _, want := range methods {
		fn, err := p.require(want)
		if err != nil {
			return nil, err
		}
		text, err := declaration(want.name, p.names.of(fn))
		if err != nil {
			return nil, err
		}
		replacements = append(replacements, replacement{method: want.name, text: text, changed: want.changed})
	}
	return replacements, nil
}

// require refuses a repository that does not have the method.
func (p *implPackage) require(want method) (*goedit.Func, error) {
	fn := p.action.Func(repoType, want.name)
	if fn == nil {
		return nil, missing(goedit.FuncKey(repoType, want.name))
	}
	if want.params != nil && !sameTypes(fn.ParamTypes(), want.params) || !sameTypes(fn.ResultTypes(), want.results) {
		return nil, otherSignature(fn)
	}
	return fn, nil
}

func otherSignature(fn *goedit.Func) error {
	return fmt.Errorf("%s: %s has another signature than expected: %s", actionFile, fn.Key(), fn.Head())
}

func (p *implPackage) addImports(paths ...string) error {
	for _, needed := range paths {
		if err := p.action.AddImport(needed); err != nil {
			return err
		}
	}
	return nil
}

var qualifier = regexp.MustCompile(`\w+\.`)

// sameTypes compares types without the names under which their packages are imported.
func sameTypes(got, want []string) bool {
	return slices.EqualFunc(got, want, func(a, b string) bool {
		return qualifier.ReplaceAllString(a, "") == qualifier.ReplaceAllString(b, "")
	})
}

// fieldOf finds the one field of the repository that has one of the types, given without their package's name.
func (p *implPackage) fieldOf(types ...string) (goedit.Field, error) {
	var found []goedit.Field
	for _, field := range p.action.Fields(repoType) {
		if slices.ContainsFunc(types, func(typ string) bool { return sameTypes([]string{field.Type}, []string{typ}) }) {
			found = append(found, field)
		}
	}
	if len(found) != 1 {
		return goedit.Field{}, fmt.Errorf("%s: type %s has %d fields of type %s, expected one", actionFile, repoType, len(found), strings.Join(types, " or "))
	}
	return found[0], nil
}

// replacement is what stands for a method from now on.
type replacement struct {
	method  string
	text    string
	changed bool // its parameters are others: what calls it as it was is gone with it
}

// replace puts the replacements in place and clears away what only the old ones needed: fields of the repository with all that
// initialises them, constants, functions, imports; in tests, the declarations that test what is gone. field (with its comment)
// takes the first such field's place, element its place in literals of tests; both may be empty. It gives the tests that went.
func (p *implPackage) replace(replacements []replacement, field, element string) ([]string, error) {
	used := p.action.Uses(goedit.FuncKey("", repoMaker))
	gone := map[string]bool{} // members that are no more, or no more what they were
	for _, r := range replacements {
		key := goedit.FuncKey(repoType, r.method)
		maps.Copy(used, p.action.Uses(key))
		if err := p.action.ReplaceDecl(key, r.text); err != nil {
			return nil, err
		}
		if r.changed {
			gone[r.method] = true
		}
	}

	fields := map[string]bool{}
	for _, candidate := range p.action.Fields(repoType) {
		if used[candidate.Name] && p.isIdle(candidate.Name) {
			fields[candidate.Name] = true
		}
	}
	if err := p.removeFields(fields, field); err != nil {
		return nil, err
	}
	maps.Copy(gone, fields)

	names, err := sweep(p.files, used)
	if err != nil {
		return nil, err
	}
	return p.adaptTests(gone, names, element)
}

// isIdle tells whether a field is set up where the repository is made, and used nowhere.
func (p *implPackage) isIdle(field string) bool {
	for _, user := range users(p.files, repoType, field) {
		if user != actionFile+": "+goedit.FuncKey("", repoMaker) {
			return false
		}
	}
	return true
}

func (p *implPackage) removeFields(fields map[string]bool, instead string) error {
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		var err error
		if i == 0 {
			err = p.action.ReplaceField(repoType, name, instead)
		} else {
			err = p.action.RemoveField(repoType, name)
		}
		if err != nil {
			return err
		}
	}
	if len(fields) == 0 && instead != "" {
		if err := p.action.AddField(repoType, instead); err != nil {
			return err
		}
	}
	if _, err := p.action.ReplaceElements(repoType, fields, ""); err != nil {
		return err
	}
	assigns := func(stmt ast.Stmt) bool { return goedit.AssignsTo(stmt, fields) }
	if _, err := p.action.RemoveStatements("", repoMaker, assigns); err != nil {
		return err
	}
	if err := p.action.RemoveIdleLocals("", repoMaker); err != nil {
		return err
	}
	for name := range fields {
		if left := users(p.files, repoType, name); len(left) > 0 {
			return fmt.Errorf("%s uses the field %s, which would be gone", left[0], name)
		}
	}
	return nil
}

// sweep removes the package-level names among candidates that are not exported and that nothing uses any more, and what only
// those used. It gives the names that went.
func sweep(files map[string]*goedit.File, candidates map[string]bool) (map[string]bool, error) {
	gone := map[string]bool{}
	for again := true; again; {
		again = false
		for _, name := range slices.Sorted(maps.Keys(candidates)) {
			if gone[name] || ast.IsExported(name) || name == "_" || name == "init" || len(users(files, "", name)) > 0 {
				continue
			}
			for _, file := range inOrder(files) {
				if !file.Declares(name) {
					continue
				}
				more := file.Uses(goedit.FuncKey("", name))
				removed, err := file.RemoveName(name)
				if err != nil {
					return nil, err
				}
				if removed {
					gone[name], again = true, true
					maps.Copy(candidates, more)
				}
			}
		}
	}
	return gone, nil
}
