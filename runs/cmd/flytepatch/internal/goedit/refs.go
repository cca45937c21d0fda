package goedit

import (
	"go/ast"
	"go/token"
)

// Mentions lists the keys of the declarations that use a member of a type, as a selector (x.name) or as a key in a composite
// literal of the type. Without a type it is a package-level name, used as a plain identifier. Its own declaration does not
// count.
func (f *File) Mentions(owner, name string) []string {
	var keys []string
	for _, decl := range f.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == name && recvName(fn) == owner {
			continue
		}
		if mentions(decl, owner, name) {
			keys = append(keys, declKey(decl))
		}
	}
	return keys
}

func mentions(in ast.Node, owner, name string) bool {
	found := false
	ast.Inspect(in, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			found = found || owner != "" && node.Sel.Name == name || mentions(node.X, owner, name)
			return false // the selected name is no plain identifier
		case *ast.CompositeLit:
			if owner != "" && node.Type != nil && typeName(node.Type) == owner {
				for _, element := range node.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok && isIdent(pair.Key, name) {
						found = true
					}
				}
			}
		case *ast.ValueSpec: // the names that it declares are no uses
			for _, value := range node.Values {
				found = found || mentions(value, owner, name)
			}
			found = found || node.Type != nil && mentions(node.Type, owner, name)
			return false
		case *ast.TypeSpec:
			found = found || node.TypeParams != nil && mentions(node.TypeParams, owner, name) || mentions(node.Type, owner, name)
			return false
		case *ast.Ident:
			found = found || owner == "" && node.Name == name
		}
		return !found
	})
	return found
}

func isIdent(expr ast.Expr, name string) bool {
	ident, ok := expr.(*ast.Ident)
	return ok && ident.Name == name
}

// Members are the names that a declaration takes from a package: all X of qualifier.X.
func (f *File) Members(key, qualifier string) map[string]bool {
	names := map[string]bool{}
	if decl := f.decl(key); decl != nil {
		ast.Inspect(decl, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && isIdent(selector.X, qualifier) {
				names[selector.Sel.Name] = true
			}
			return true
		})
	}
	return names
}

// RemoveIdleLocals takes away the local variables of a function that are made (make, new) and then not used: what fed a
// field that is gone.
func (f *File) RemoveIdleLocals(recv, name string) error {
	_, err := f.RemoveStatements(recv, name, func(stmt ast.Stmt) bool {
		assign, ok := stmt.(*ast.AssignStmt)
		if !ok || assign.Tok != token.DEFINE || len(assign.Lhs) != 1 || !isMaking(assign.Rhs[0]) {
			return false
		}
		ident, ok := assign.Lhs[0].(*ast.Ident)
		if !ok {
			return false
		}
		uses := 0
		ast.Inspect(f.Func(recv, name).decl.Body, func(node ast.Node) bool {
			if other, ok := node.(*ast.Ident); ok && other.Name == ident.Name {
				uses++
			}
			return true
		})
		return uses == 1
	})
	return err
}

func isMaking(expr ast.Expr) bool {
	call, ok := expr.(*ast.CallExpr)
	return ok && (isIdent(call.Fun, "make") || isIdent(call.Fun, "new"))
}

// AssignsTo tells whether a statement does nothing but assign to members (x.name) of the given names.
func AssignsTo(stmt ast.Stmt, names map[string]bool) bool {
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || assign.Tok != token.ASSIGN {
		return false
	}
	for _, target := range assign.Lhs {
		selector, ok := target.(*ast.SelectorExpr)
		if !ok || !names[selector.Sel.Name] {
			return false
		}
	}
	return true
}

// Calls tells whether a statement is a call, go or defer of a member (x.name()).
func Calls(stmt ast.Stmt, name string) bool {
	var call ast.Expr
	switch stmt := stmt.(type) {
	case *ast.GoStmt:
		call = stmt.Call
	case *ast.DeferStmt:
		call = stmt.Call
	case *ast.ExprStmt:
		call = stmt.X
	}
	expr, ok := call.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := expr.Fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == name
}
