package series

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

// engineDir is the package that all of it stands on.
const engineDir = "flytestdlib/pgnotify"

// engineModules are the modules that the package and its tests may import. Flyte requires each of them already; the series adds no
// requirement.
var engineModules = []string{
	"github.com/jackc/pgx/v5",
	"github.com/stretchr/testify",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/metric",
}

const loggerImport = module + "/flytestdlib/logger"

// loggerMembers are what Flyte's logger has in common with ours.
var loggerMembers = map[string]bool{"Debugf": true, "Infof": true, "Warnf": true, "Errorf": true}

// databaseForTests is the one test file that knows where the tests' PostgreSQL is. Flyte's tests have theirs elsewhere.
const databaseForTests = engineDir + "/dsn_test.go"

// engineFiles are the package's files that go into flyteorg/flyte. A file of the package that needs something that is not there is
// an error. Of its tests those declarations are left out, with what needs them. Metrics come with their own step.
func engineFiles(source Source, metrics bool) (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(file *goedit.File) error {
		if strings.HasPrefix(path.Base(file.Path()), "metrics") != metrics || len(file.Decls()) == 0 && file.Changed() {
			return nil
		}
		content, err := file.Finish()
		files[file.Path()] = content
		return err
	}

	names, err := source.tree.goFiles(engineDir, false)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		file, err := source.tree.parse(name)
		if err != nil {
			return nil, err
		}
		for _, key := range append(file.Decls(), "import") {
			if foreign := foreignTo(file, key); foreign != "" {
				return nil, fmt.Errorf("%s: %s needs %s, which flyteorg/flyte does not have", name, key, foreign)
			}
		}
		if err := add(file); err != nil {
			return nil, err
		}
	}

	tests, err := portableTests(source)
	if err != nil {
		return nil, err
	}
	for _, file := range tests {
		if err := add(file); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// portableTests are the package's test files without what needs more than flyteorg/flyte has.
func portableTests(source Source) (map[string]*goedit.File, error) {
	names, err := source.tree.goFiles(engineDir, true)
	if err != nil {
		return nil, err
	}
	files := map[string]*goedit.File{}
	for _, name := range names {
		content, err := source.tree.read(name)
		if name == databaseForTests {
			content, err = template("pgnotify/dsn_test.go")
		}
		if err != nil {
			return nil, err
		}
		if files[name], err = goedit.Parse(name, content); err != nil {
			return nil, err
		}
	}
	tainted := map[testDecl]bool{}
	for _, file := range files {
		for _, key := range file.Decls() {
			if foreignTo(file, key) != "" {
				tainted[testDecl{file.Path(), key}] = true
			}
		}
	}
	spread(files, tainted)
	if err := removeAll(files, tainted); err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := file.DropUnusedImports(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// foreignTo names something that a declaration uses and that Flyte does not have: a package of another module than the
// engine's, or a member of the logger that is ours alone. For "import" it names a package that is imported for its effect.
func foreignTo(file *goedit.File, key string) string {
	for _, imported := range file.Imports() {
		if key == "import" {
			if imported.Name == "_" && !isAtHome(imported.Path) {
				return imported.Path
			}
			continue
		}
		members := file.Members(key, imported.Name)
		if imported.Path == loggerImport {
			maps.DeleteFunc(members, func(name string, _ bool) bool { return loggerMembers[name] })
			for name := range members {
				return "logger." + name
			}
		} else if len(members) > 0 && !isAtHome(imported.Path) {
			return imported.Path
		}
	}
	return ""
}

func isAtHome(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") || imported == loggerImport || imported == engineImport {
		return true
	}
	return slices.ContainsFunc(engineModules, func(required string) bool {
		below, ok := strings.CutPrefix(imported, required+"/")
		// Not the modules below a module: go.opentelemetry.io/otel/sdk is one of its own.
		part, _, _ := strings.Cut(below, "/")
		return imported == required || ok && !slices.Contains(nestedModules, part)
	})
}

// nestedModules are directories of go.opentelemetry.io/otel that are modules by themselves.
var nestedModules = []string{"sdk", "trace", "log", "exporters", "bridge", "schema"}
