package goedit

import (
	"go/ast"
	"slices"
)

// RenameNames has the file use other names for what other files of its package declare: plain identifiers, whatever their scope. What
// is selected (x.name) keeps its name.
func (f *File) RenameNames(names map[string]string) error {
	_, err := f.rewrite(func(node ast.Node) (at span, text string, found bool) {
		ident, ok := node.(*ast.Ident)
		if !ok {
			return span{}, "", false
		}
		text, found = names[ident.Name]
		return f.spanOf(ident), text, found
	})
	return err
}

// RenameQualifier has the given members of a package taken from another one: old.Name becomes new.Name. It gives the keys of the
// declarations that it changed.
func (f *File) RenameQualifier(old, new string, members map[string]bool) ([]string, error) {
	return f.rewrite(func(node ast.Node) (at span, text string, found bool) {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok || !members[selector.Sel.Name] || !isIdent(selector.X, old) {
			return span{}, "", false
		}
		return f.spanOf(selector.X), new, true
	})
}

// AssertOther has x.(*typ) say x.(*other).member: where other holds a typ in that member.
func (f *File) AssertOther(typ, other, member string) error {
	_, err := f.rewrite(func(node ast.Node) (at span, text string, found bool) {
		assertion, ok := node.(*ast.TypeAssertExpr)
		if !ok || assertion.Type == nil || f.text(assertion.Type) != "*"+typ {
			return span{}, "", false
		}
		at = span{f.offset(assertion.Type.Pos()), f.offset(assertion.Rparen) + 1}
		return at, "*" + other + ")." + member, true
	})
	return err
}

func (f *File) spanOf(node ast.Node) span { return span{f.offset(node.Pos()), f.offset(node.End())} }

// rewrite puts text for what match finds anywhere outside of imports; selected names (x.name) are not looked at by themselves. It
// gives the keys of the declarations that it changed.
func (f *File) rewrite(match func(node ast.Node) (at span, text string, found bool)) ([]string, error) {
	type edit struct {
		at   span
		text string
	}
	var edits []edit
	changed := map[string]bool{}
	for _, decl := range f.syntax.Decls {
		key := declKey(decl)
		if key == "import" {
			continue
		}
		var look func(node ast.Node) bool
		look = func(node ast.Node) bool {
			if at, text, found := match(node); found {
				edits = append(edits, edit{at, text})
				f.touched[key], changed[key] = true, true
			}
			if selector, ok := node.(*ast.SelectorExpr); ok {
				ast.Inspect(selector.X, look)
				return false
			}
			return true
		}
		ast.Inspect(decl, look)
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.at.from - a.at.from })
	for _, e := range edits {
		f.src = spliced(f.src, e.at, e.text)
	}
	return sortedKeys(changed), f.parse()
}
