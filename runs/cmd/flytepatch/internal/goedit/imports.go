package goedit

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Import is one import of a file.
type Import struct {
	Path string
	Name string // as it is used in the file: the alias, or what the path suggests
}

// Imports are the file's imports in order.
func (f *File) Imports() []Import {
	var imports []Import
	for _, spec := range f.syntax.Imports {
		imports = append(imports, importOf(spec))
	}
	return imports
}

// ImportName is the name under which the file uses a package; empty if it does not import it.
func (f *File) ImportName(importPath string) string {
	for _, imported := range f.Imports() {
		if imported.Path == importPath {
			return imported.Name
		}
	}
	return ""
}

func importOf(spec *ast.ImportSpec) Import {
	importPath, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		importPath = spec.Path.Value
	}
	if spec.Name != nil {
		return Import{Path: importPath, Name: spec.Name.Name}
	}
	return Import{Path: importPath, Name: PackageName(importPath)}
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// PackageName is the package name that an import path suggests: its last part without a major version and a "go-" in front.
func PackageName(importPath string) string {
	base := path.Base(importPath)
	if majorVersion.MatchString(base) && path.Dir(importPath) != "." {
		base = path.Base(path.Dir(importPath))
	}
	base, _, _ = strings.Cut(base, ".") // gopkg.in/yaml.v3
	return strings.ReplaceAll(strings.TrimPrefix(base, "go-"), "-", "_")
}

// AddImport imports a package by its own name, in the group of imports whose paths have most in common with it, where the order
// wants it. Nothing happens if it is imported.
func (f *File) AddImport(importPath string) error {
	if f.ImportName(importPath) != "" {
		return nil
	}
	f.touched["import"] = true
	line := "\t" + strconv.Quote(importPath) + "\n"
	decl := f.importDecl()
	if decl == nil {
		end := f.offset(f.syntax.Name.End())
		return f.splice(span{end, end}, "\n\nimport (\n"+line+")")
	}
	if !decl.Lparen.IsValid() {
		at := f.declSpan(decl)
		spec := f.text(decl.Specs[0])
		if err := f.splice(at, "import (\n\t"+spec+"\n)"); err != nil {
			return err
		}
		decl = f.importDecl()
	}
	groups := f.importGroups(decl)
	best := groups[0]
	for _, group := range groups[1:] {
		if affinity(group, importPath) > affinity(best, importPath) {
			best = group
		}
	}
	for _, spec := range best {
		if importOf(spec).Path > importPath {
			at := f.lineStart(f.specStart(spec))
			return f.splice(span{at, at}, line)
		}
	}
	last := best[len(best)-1]
	at := f.lineEnd(f.offset(last.End()))
	return f.splice(span{at, at}, line)
}

// DropUnusedImports removes the imports that the file used when it was read and uses no more.
func (f *File) DropUnusedImports() error {
	before, err := Parse(f.path, f.original)
	if err != nil {
		return err
	}
	for _, imported := range f.Imports() {
		if before.qualifies(imported.Name) && !f.qualifies(imported.Name) {
			if err := f.removeImport(imported.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *File) removeImport(importPath string) error {
	for _, decl := range f.syntax.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.IMPORT {
			continue
		}
		for _, spec := range general.Specs {
			spec := spec.(*ast.ImportSpec)
			if importOf(spec).Path != importPath {
				continue
			}
			f.touched["import"] = true
			if len(general.Specs) == 1 {
				return f.removeSpan(f.declSpan(general))
			}
			at := span{f.lineStart(f.specStart(spec)), f.lineEnd(f.offset(spec.End()))}
			return f.splice(at, "")
		}
	}
	return fmt.Errorf("%s: %s is not imported", f.path, importPath)
}

// qualifies tells whether name is used as a package: name.Something, where name is no local variable.
func (f *File) qualifies(name string) bool {
	found := false
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if ident, ok := selector.X.(*ast.Ident); ok && ident.Name == name && ident.Obj == nil { //nolint:staticcheck // syntax alone is enough here
				found = true
			}
		}
		return !found
	})
	return found
}

func (f *File) importDecl() *ast.GenDecl {
	for _, decl := range f.syntax.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			return general
		}
	}
	return nil
}

// importGroups are the runs of imports without a blank line between them.
func (f *File) importGroups(decl *ast.GenDecl) [][]*ast.ImportSpec {
	var groups [][]*ast.ImportSpec
	lastLine := -1
	for _, spec := range decl.Specs {
		spec := spec.(*ast.ImportSpec)
		line := f.fset.File(spec.Pos()).Line(f.fset.File(spec.Pos()).Pos(f.specStart(spec)))
		if lastLine < 0 || line > lastLine+1 {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], spec)
		lastLine = f.fset.Position(spec.End()).Line
	}
	return groups
}

// affinity says how well a path fits a group: the number of leading path parts that it shares with the group's best member.
// The standard library's paths have no dot in their first part.
func affinity(group []*ast.ImportSpec, importPath string) int {
	best := 0
	for _, spec := range group {
		other := importOf(spec).Path
		shared := 0
		mine, theirs := strings.Split(importPath, "/"), strings.Split(other, "/")
		for shared < min(len(mine), len(theirs)) && mine[shared] == theirs[shared] {
			shared++
		}
		score := 2 * shared
		if strings.Contains(mine[0], ".") == strings.Contains(theirs[0], ".") {
			score++
		}
		best = max(best, score)
	}
	return best
}

func (f *File) specStart(spec *ast.ImportSpec) int {
	if spec.Doc != nil {
		return f.offset(spec.Doc.Pos())
	}
	return f.offset(spec.Pos())
}

func (f *File) lineStart(at int) int {
	return strings.LastIndexByte(string(f.src[:at]), '\n') + 1
}

func (f *File) lineEnd(at int) int {
	return at + cmp.Or(strings.IndexByte(string(f.src[at:]), '\n')+1, len(f.src)-at)
}
