package goedit

import (
	"bytes"
	"go/ast"
	"strings"
)

// ReplaceElements removes the given keys from every keyed composite literal of the struct type, in whatever declaration it is;
// in each literal that had one, replacement (may be empty) takes the place of the first. It gives the keys of the
// declarations that it changed.
func (f *File) ReplaceElements(structName string, keys map[string]bool, replacement string) ([]string, error) {
	changed := map[string]bool{}
	replaced := map[int]bool{} // literals, by the offset of their brace, that have the replacement already
	for {
		decl, literal, element := f.findElement(structName, keys)
		if element == nil {
			return sortedKeys(changed), nil
		}
		f.touched[decl] = true
		changed[decl] = true
		// Edits within a literal come after its brace: the offset stays its name.
		brace := f.offset(literal.Lbrace)
		at := span{f.offset(element.Pos()), f.offset(element.End())}
		if replacement != "" && !replaced[brace] {
			replaced[brace] = true
			if err := f.splice(at, replacement); err != nil {
				return nil, err
			}
			continue
		}
		if err := f.splice(f.elementSpan(at), ""); err != nil {
			return nil, err
		}
	}
}

// Elements are the values that composite literals of the struct give to a field, as they are written.
func (f *File) Elements(structName, key string) []string {
	var values []string
	f.eachElement(structName, func(_ string, _ *ast.CompositeLit, element *ast.KeyValueExpr) bool {
		if ident, ok := element.Key.(*ast.Ident); ok && ident.Name == key {
			values = append(values, f.text(element.Value))
		}
		return true
	})
	return values
}

func (f *File) findElement(structName string, keys map[string]bool) (decl string, literal *ast.CompositeLit, found *ast.KeyValueExpr) {
	f.eachElement(structName, func(in string, of *ast.CompositeLit, element *ast.KeyValueExpr) bool {
		if ident, ok := element.Key.(*ast.Ident); ok && keys[ident.Name] {
			decl, literal, found = in, of, element
		}
		return found == nil
	})
	return decl, literal, found
}

func (f *File) eachElement(structName string, visit func(decl string, literal *ast.CompositeLit, element *ast.KeyValueExpr) bool) {
	for _, decl := range f.syntax.Decls {
		more := true
		ast.Inspect(decl, func(node ast.Node) bool {
			literal, ok := node.(*ast.CompositeLit)
			if !ok || literal.Type == nil || typeName(literal.Type) != structName {
				return more
			}
			for _, element := range literal.Elts {
				if element, ok := element.(*ast.KeyValueExpr); ok && more {
					more = visit(declKey(decl), literal, element)
				}
			}
			return more
		})
		if !more {
			return
		}
	}
}

// elementSpan is what goes when an element goes: its lines, or within a line one of the commas around it.
func (f *File) elementSpan(at span) span {
	if lines, ok := f.wholeLines(f.withCommentAbove(at)); ok {
		return lines
	}
	after := f.src[at.to:]
	if rest, ok := bytes.CutPrefix(after, []byte(",")); ok {
		at.to += 1 + len(rest) - len(bytes.TrimLeft(rest, " \t"))
		return at
	}
	before := strings.TrimRight(string(f.src[:at.from]), " \t")
	at.from = len(strings.TrimSuffix(before, ","))
	return at
}
