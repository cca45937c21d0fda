package goedit

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// FuncKey names a function (recv is empty) or a method in messages and digests.
func FuncKey(recv, name string) string {
	if recv == "" {
		return "func " + name
	}
	return "method " + recv + "." + name
}

// declKey names a top-level declaration: "method actionRepo.GetRun", "func NewActionRepo", "type actionRepo", "const a, b", "import".
func declKey(decl ast.Decl) string {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		return FuncKey(recvName(decl), decl.Name.Name)
	case *ast.GenDecl:
		if decl.Tok == token.IMPORT {
			return "import"
		}
		var names []string
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
		return decl.Tok.String() + " " + strings.Join(names, ", ")
	}
	return "?"
}

// recvName is the receiver's type without pointer and type parameters; empty for a function.
func recvName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	return typeName(fn.Recv.List[0].Type)
}

// typeName is the last identifier of a type expression: "actionRepo" of *actionRepo, "Listener" of *pq.Listener.
func typeName(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr.Name
	case *ast.StarExpr:
		return typeName(expr.X)
	case *ast.UnaryExpr:
		return typeName(expr.X)
	case *ast.ParenExpr:
		return typeName(expr.X)
	case *ast.IndexExpr:
		return typeName(expr.X)
	case *ast.IndexListExpr:
		return typeName(expr.X)
	case *ast.SelectorExpr:
		return expr.Sel.Name
	}
	return ""
}

// Func finds a method of the type recv, or a function if recv is empty; nil if there is none.
func (f *File) Func(recv, name string) *Func {
	for _, decl := range f.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == name && recvName(fn) == recv {
			return &Func{file: f, decl: fn}
		}
	}
	return nil
}

// Decls are the keys of the file's declarations, in the file's order, imports left out.
func (f *File) Decls() []string {
	var keys []string
	for _, decl := range f.syntax.Decls {
		if key := declKey(decl); key != "import" {
			keys = append(keys, key)
		}
	}
	return keys
}

func (f *File) decl(key string) ast.Decl {
	for _, decl := range f.syntax.Decls {
		if declKey(decl) == key {
			return decl
		}
	}
	return nil
}

// ReplaceDecl puts text where the declaration was, its doc comment included.
func (f *File) ReplaceDecl(key, text string) error {
	decl := f.decl(key)
	if decl == nil {
		return fmt.Errorf("%s: there is no %s", f.path, key)
	}
	f.touched[key] = true
	return f.splice(f.declSpan(decl), strings.TrimSpace(text))
}

// RemoveDecl takes the declaration and its doc comment away.
func (f *File) RemoveDecl(key string) error {
	decl := f.decl(key)
	if decl == nil {
		return fmt.Errorf("%s: there is no %s", f.path, key)
	}
	f.touched[key] = true
	return f.removeSpan(f.declSpan(decl))
}

// removeSpan takes a declaration's bytes away; of the blank lines around them one stays.
func (f *File) removeSpan(at span) error {
	above, below := bytes.TrimRight(f.src[:at.from], "\n"), bytes.TrimLeft(f.src[at.to:], "\n")
	breaks := min(2, max(at.from-len(above), len(f.src)-at.to-len(below)))
	if len(below) == 0 {
		breaks = 1
	}
	return f.splice(span{len(above), len(f.src) - len(below)}, strings.Repeat("\n", breaks))
}

// AppendDecl adds a declaration at the end. The key is the one that the text will have.
func (f *File) AppendDecl(key, text string) error {
	if f.decl(key) != nil {
		return fmt.Errorf("%s: there is already a %s", f.path, key)
	}
	f.touched[key] = true
	end := len(bytes.TrimRight(f.src, "\n"))
	return f.splice(span{end, len(f.src)}, "\n\n"+strings.TrimSpace(text)+"\n")
}

// declSpan runs from the doc comment to the end, with a comment that follows on the last line.
func (f *File) declSpan(decl ast.Decl) span {
	start, end := decl.Pos(), decl.End()
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Doc != nil {
			start = decl.Doc.Pos()
		}
	case *ast.GenDecl:
		if decl.Doc != nil {
			start = decl.Doc.Pos()
		}
	}
	line := f.fset.Position(end).Line
	for _, group := range f.syntax.Comments {
		if group.Pos() >= end && f.fset.Position(group.Pos()).Line == line {
			end = group.End()
		}
	}
	return span{f.offset(start), f.offset(end)}
}

// Digest is the hash of a declaration's bytes, its doc comment included.
func (f *File) Digest(key string) ([sha256.Size]byte, error) {
	decl := f.decl(key)
	if decl == nil {
		return [sha256.Size]byte{}, fmt.Errorf("%s: there is no %s", f.path, key)
	}
	at := f.declSpan(decl)
	return sha256.Sum256(f.src[at.from:at.to]), nil
}

// residue is what a file has besides the given declarations and its imports, runs of blank lines taken as one:
// all other declarations with their comments, and the comments between them.
func residue(path string, src []byte, without map[string]bool) ([]byte, error) {
	f := &File{path: path, src: bytes.Clone(src)}
	if err := f.parse(); err != nil {
		return nil, err
	}
	rest := f.src
	for i := len(f.syntax.Decls) - 1; i >= 0; i-- {
		decl := f.syntax.Decls[i]
		if key := declKey(decl); key == "import" || without[key] {
			rest = spliced(rest, f.declSpan(decl), "")
		}
	}
	for {
		shorter := bytes.ReplaceAll(rest, []byte("\n\n\n"), []byte("\n\n"))
		if len(shorter) == len(rest) {
			return bytes.TrimSpace(rest), nil
		}
		rest = shorter
	}
}

// Declared lists the keys that a fragment of Go source declares; the fragment has no package clause.
func Declared(fragment string) ([]string, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+fragment, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse fragment: %w", err)
	}
	var keys []string
	for _, decl := range syntax.Decls {
		keys = append(keys, declKey(decl))
	}
	return keys, nil
}

func sortedKeys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
