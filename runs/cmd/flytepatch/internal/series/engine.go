package series

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// engineDir is the package that all of it stands on.
const engineDir = "flytestdlib/pgnotify"

// engineModules are the modules that the package and those of its tests that go along may import. Flyte requires each of them
// already; the series adds no requirement.
var engineModules = []string{
	"github.com/jackc/pgx/v5",
	"github.com/stretchr/testify",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/metric",
}

// enginePackages are the module's own packages that it may import.
var enginePackages = []string{module + "/" + engineDir, module + "/flytestdlib/logger"}

// databaseForTests is the one test file that knows where the tests' PostgreSQL is. Flyte's tests have theirs elsewhere.
const databaseForTests = engineDir + "/dsn_test.go"

// engineFiles are the package's files that go into flyteorg/flyte: all that make the package, and the tests that need nothing
// that Flyte's go.mod lacks. Metrics come with their own step.
func engineFiles(source Source, metrics bool) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, tests := range []bool{false, true} {
		names, err := source.tree.goFiles(engineDir, tests)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasPrefix(path.Base(name), "metrics") != metrics {
				continue
			}
			content, err := source.tree.read(name)
			if err != nil {
				return nil, err
			}
			if name == databaseForTests {
				if content, err = template("pgnotify/dsn_test.go"); err != nil {
					return nil, err
				}
			}
			foreign, err := foreignImport(name, content)
			switch {
			case err != nil:
				return nil, err
			case foreign == "":
				files[name] = content
			case !tests:
				return nil, fmt.Errorf("%s imports %s, which flyteorg/flyte does not require", name, foreign)
			}
		}
	}
	return files, nil
}

// foreignImport is an import that is neither of the standard library nor of engineModules and enginePackages; empty if there
// is none.
func foreignImport(name string, content []byte) (string, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
	if err != nil {
		return "", fmt.Errorf("parse %s: %w", name, err)
	}
	at := slices.IndexFunc(syntax.Imports, func(spec *ast.ImportSpec) bool { return !isAtHome(importPath(spec)) })
	if at < 0 {
		return "", nil
	}
	return importPath(syntax.Imports[at]), nil
}

func importPath(spec *ast.ImportSpec) string {
	unquoted, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return unquoted
}

func isAtHome(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") || slices.Contains(enginePackages, imported) {
		return true
	}
	return slices.ContainsFunc(engineModules, func(required string) bool {
		below, ok := strings.CutPrefix(imported, required)
		// Not the modules below a module: go.opentelemetry.io/otel/sdk is one of its own.
		return ok && (below == "" || strings.HasPrefix(below, "/") && !slices.Contains(nestedModules, firstPart(below)))
	})
}

// nestedModules are directories of go.opentelemetry.io/otel that are modules by themselves.
var nestedModules = []string{"sdk", "trace", "log", "exporters", "bridge", "schema"}

func firstPart(below string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(below, "/"), "/")
	return first
}
