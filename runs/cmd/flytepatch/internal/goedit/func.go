package goedit

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// Func is a function or method of a file, as it was when it was looked up.
type Func struct {
	file *File
	decl *ast.FuncDecl
}

// Key names it.
func (fn *Func) Key() string { return declKey(fn.decl) }

// Text is its source, the doc comment included.
func (fn *Func) Text() string {
	at := fn.file.declSpan(fn.decl)
	return string(fn.file.src[at.from:at.to])
}

// Receiver is the receiver's name; empty for a function or an unnamed receiver.
func (fn *Func) Receiver() string {
	if fn.decl.Recv == nil || len(fn.decl.Recv.List) == 0 || len(fn.decl.Recv.List[0].Names) == 0 {
		return ""
	}
	return fn.decl.Recv.List[0].Names[0].Name
}

// Params are the names of the parameters in order.
func (fn *Func) Params() []string { return fieldNames(fn.decl.Type.Params) }

// ParamTypes are the types of the parameters in order, one for each name, as they are written.
func (fn *Func) ParamTypes() []string { return fn.file.fieldTypes(fn.decl.Type.Params) }

// ResultTypes are the types of the results in order, as they are written.
func (fn *Func) ResultTypes() []string { return fn.file.fieldTypes(fn.decl.Type.Results) }

// Head is the line that opens it, from "func" to before the body.
func (fn *Func) Head() string {
	from := fn.file.offset(fn.decl.Type.Func)
	to := fn.file.offset(fn.decl.Type.End())
	return strings.TrimSpace(string(fn.file.src[from:to]))
}

// Returns are the results of its return statements, as they are written; those of functions within it are left out.
func (fn *Func) Returns() [][]string {
	var all [][]string
	for _, stmt := range fn.returns() {
		all = append(all, fn.results(stmt))
	}
	return all
}

func (fn *Func) results(stmt *ast.ReturnStmt) []string {
	var results []string
	for _, result := range stmt.Results {
		results = append(results, fn.file.text(result))
	}
	return results
}

func (fn *Func) returns() []*ast.ReturnStmt {
	var found []*ast.ReturnStmt
	ast.Inspect(fn.decl, func(node ast.Node) bool {
		if stmt, ok := node.(*ast.ReturnStmt); ok {
			found = append(found, stmt)
		}
		_, inner := node.(*ast.FuncLit)
		return !inner
	})
	return found
}

func fieldNames(list *ast.FieldList) []string {
	var names []string
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
		if len(field.Names) == 0 {
			names = append(names, "_")
		}
	}
	return names
}

func (f *File) fieldTypes(list *ast.FieldList) []string {
	var types []string
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for range max(1, len(field.Names)) {
			types = append(types, f.text(field.Type))
		}
	}
	return types
}

// Prepend puts statements at the beginning of a function's body.
func (f *File) Prepend(recv, name, statements string) error {
	fn := f.Func(recv, name)
	if fn == nil || fn.decl.Body == nil {
		return fmt.Errorf("%s: there is no %s with a body", f.path, FuncKey(recv, name))
	}
	f.touched[fn.Key()] = true
	at := f.offset(fn.decl.Body.Lbrace) + 1
	return f.splice(span{at, at}, "\n"+strings.TrimSpace(statements))
}

// WrapResult has a function return wrapper(result) wherever its first result is other than nil.
func (f *File) WrapResult(recv, name, wrapper string) error {
	fn := f.Func(recv, name)
	if fn == nil {
		return fmt.Errorf("%s: there is no %s", f.path, FuncKey(recv, name))
	}
	f.touched[fn.Key()] = true
	for _, stmt := range slices.Backward(fn.returns()) {
		if results := fn.results(stmt); len(results) > 0 && results[0] != "nil" {
			at := f.spanOf(stmt.Results[0])
			f.src = spliced(f.src, at, wrapper+"("+results[0]+")")
		}
	}
	return f.parse()
}

// RemoveStatements takes away the statements of a function for which match holds, wherever they are nested, with the comment
// right above each. It gives how many there were.
func (f *File) RemoveStatements(recv, name string, match func(stmt ast.Stmt) bool) (removed int, err error) {
	for {
		fn := f.Func(recv, name)
		if fn == nil || fn.decl.Body == nil {
			return removed, nil
		}
		var found ast.Stmt
		ast.Inspect(fn.decl.Body, func(node ast.Node) bool {
			if stmt, ok := node.(ast.Stmt); ok && found == nil && stmt != ast.Stmt(fn.decl.Body) && match(stmt) {
				found = stmt
			}
			return found == nil
		})
		if found == nil {
			return removed, nil
		}
		at := f.withCommentAbove(span{f.offset(found.Pos()), f.offset(found.End())})
		f.touched[fn.Key()] = true
		lines, alone := f.wholeLines(at)
		if alone {
			err = f.cut(lines)
		} else {
			err = f.splice(at, "")
		}
		if err != nil {
			return removed, err
		}
		removed++
	}
}

// withCommentAbove widens a span to the comment group that ends on the line before it.
func (f *File) withCommentAbove(at span) span {
	file := f.fset.File(f.syntax.Pos())
	line := f.fset.Position(file.Pos(at.from)).Line
	for _, group := range f.syntax.Comments {
		if f.fset.Position(group.End()).Line == line-1 {
			comment := span{f.offset(group.Pos()), at.to}
			if _, alone := f.wholeLines(span{comment.from, f.offset(group.End())}); alone {
				return comment
			}
		}
	}
	return at
}
