package goedit

import (
	"fmt"
	"go/ast"
	"go/token"
)

// Uses are the names that a declaration's source has after a dot, as a key of a literal, or by themselves.
func (f *File) Uses(key string) map[string]bool {
	names := map[string]bool{}
	if decl := f.decl(key); decl != nil {
		ast.Inspect(decl, func(node ast.Node) bool {
			if ident, ok := node.(*ast.Ident); ok {
				names[ident.Name] = true
			}
			return true
		})
	}
	return names
}

// NamesOf are the package-level names of a declaration; a method's is its receiver's type.
func (f *File) NamesOf(key string) []string {
	var names []string
	switch decl := f.decl(key).(type) {
	case *ast.FuncDecl:
		if decl.Recv != nil {
			return []string{recvName(decl)}
		}
		return []string{decl.Name.Name}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, ident := range spec.Names {
					names = append(names, ident.Name)
				}
			}
		}
	}
	return names
}

// Declares tells whether the file declares a package-level name: a function, a type, a constant or a variable.
func (f *File) Declares(name string) bool {
	decl, _ := f.declOf(name)
	return decl != nil
}

// declOf finds the declaration of a package-level name, and its spec unless it is a function.
func (f *File) declOf(name string) (ast.Decl, ast.Spec) {
	for _, decl := range f.syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil && decl.Name.Name == name {
				return decl, nil
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.Name == name {
						return decl, spec
					}
				case *ast.ValueSpec:
					for _, ident := range spec.Names {
						if ident.Name == name {
							return decl, spec
						}
					}
				}
			}
		}
	}
	return nil, nil
}

// RemoveName takes a package-level name away: its declaration, or its line in a group. It tells whether it did: a name that shares
// its line or its value with others (a, b = f(); iota) stays.
func (f *File) RemoveName(name string) (bool, error) {
	decl, spec := f.declOf(name)
	if decl == nil {
		return false, fmt.Errorf("%s: there is no %s", f.path, name)
	}
	general, ok := decl.(*ast.GenDecl)
	if !ok || len(general.Specs) == 1 && !sharesValue(general, spec) {
		return true, f.RemoveDecl(declKey(decl))
	}
	if sharesValue(general, spec) {
		return false, nil
	}
	// The group's key has all its names: it is touched under the old one and the new one.
	f.touched[declKey(decl)] = true
	at := span{f.offset(spec.Pos()), f.offset(spec.End())}
	if doc := specDoc(spec); doc != nil {
		at.from = f.offset(doc.Pos())
	}
	lines, alone := f.wholeLines(at)
	if !alone {
		return false, nil
	}
	groupAt := f.offset(decl.Pos())
	if err := f.cut(lines); err != nil {
		return false, err
	}
	for _, decl := range f.syntax.Decls {
		if f.offset(decl.Pos()) == groupAt {
			f.touched[declKey(decl)] = true
		}
	}
	return true, nil
}

func specDoc(spec ast.Spec) *ast.CommentGroup {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Doc
	case *ast.ValueSpec:
		return spec.Doc
	}
	return nil
}

// sharesValue tells whether other names depend on this line: it declares several, or a line of its group repeats the one above.
func sharesValue(group *ast.GenDecl, spec ast.Spec) bool {
	value, ok := spec.(*ast.ValueSpec)
	if !ok {
		return false
	}
	if len(value.Names) > 1 {
		return true
	}
	for _, other := range group.Specs {
		if other, ok := other.(*ast.ValueSpec); ok && group.Tok == token.CONST && len(other.Values) == 0 {
			return true
		}
	}
	return false
}
