package goedit

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"strings"
)

// File is one Go source file under change. Not safe for concurrent use.
type File struct {
	path     string
	original []byte
	src      []byte
	fset     *token.FileSet
	syntax   *ast.File
	touched  map[string]bool // keys of the declarations that an edit changed, added or removed
}

// Parse reads a file. The path only names it in errors.
func Parse(path string, src []byte) (*File, error) {
	f := &File{path: path, original: bytes.Clone(src), src: bytes.Clone(src), touched: map[string]bool{}}
	if err := f.parse(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) parse() error {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, f.path, f.src, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse %s: %w", f.path, err)
	}
	f.fset, f.syntax = fset, syntax
	return nil
}

// Path is the name that Parse was given.
func (f *File) Path() string { return f.path }

// Changed tells whether an edit changed anything.
func (f *File) Changed() bool { return !bytes.Equal(f.original, f.src) }

// Finish formats what was touched, verifies that nothing else changed, and gives the file's bytes.
func (f *File) Finish() ([]byte, error) {
	if err := f.formatTouched(); err != nil {
		return nil, err
	}
	before, err := residue(f.path, f.original, f.touched)
	if err != nil {
		return nil, err
	}
	after, err := residue(f.path, f.src, f.touched)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(before, after) {
		return nil, fmt.Errorf("%s: something outside of the declarations %s would change", f.path, strings.Join(sortedKeys(f.touched), ", "))
	}
	return bytes.Clone(f.src), nil
}

// formatTouched runs gofmt over each touched declaration by itself.
func (f *File) formatTouched() error {
	// From the last to the first: a splice leaves the positions before it alone.
	for i := len(f.syntax.Decls) - 1; i >= 0; i-- {
		decl := f.syntax.Decls[i]
		if !f.touched[declKey(decl)] {
			continue
		}
		at := f.declSpan(decl)
		formatted, err := format.Source(f.src[at.from:at.to])
		if err != nil {
			return fmt.Errorf("%s: format %s: %w", f.path, declKey(decl), err)
		}
		f.src = spliced(f.src, at, string(bytes.TrimRight(formatted, "\n")))
	}
	return f.parse()
}

// splice replaces the span's bytes and parses again.
func (f *File) splice(at span, text string) error {
	f.src = spliced(f.src, at, text)
	return f.parse()
}

// span is a half-open range of byte offsets.
type span struct{ from, to int }

func spliced(src []byte, at span, text string) []byte {
	out := make([]byte, 0, len(src)+len(text))
	out = append(out, src[:at.from]...)
	out = append(out, text...)
	return append(out, src[at.to:]...)
}

func (f *File) offset(pos token.Pos) int { return f.fset.Position(pos).Offset }

// text is a node's source.
func (f *File) text(node ast.Node) string {
	return string(f.src[f.offset(node.Pos()):f.offset(node.End())])
}

// wholeLines widens a span to the lines it stands on, the last line's end included, if nothing else but
// a comma or a line comment is on them; ok says whether that is so.
func (f *File) wholeLines(at span) (lines span, ok bool) {
	from := bytes.LastIndexByte(f.src[:at.from], '\n') + 1
	if len(bytes.TrimSpace(f.src[from:at.from])) > 0 {
		return at, false
	}
	to := len(f.src)
	if end := bytes.IndexByte(f.src[at.to:], '\n'); end >= 0 {
		to = at.to + end + 1
	}
	rest := bytes.TrimSpace(f.src[at.to:to])
	rest = bytes.TrimSpace(bytes.TrimPrefix(rest, []byte(",")))
	if len(rest) > 0 && !bytes.HasPrefix(rest, []byte("//")) {
		return at, false
	}
	return span{from, to}, true
}

// cut removes whole lines, and the blank line above them if they were a paragraph of their own.
func (f *File) cut(lines span) error {
	above, below := f.src[:lines.from], bytes.TrimLeft(f.src[lines.to:], " \t")
	if bytes.HasSuffix(above, []byte("\n\n")) && (len(below) == 0 || bytes.IndexByte([]byte("\n})"), below[0]) >= 0) {
		lines.from--
	}
	return f.splice(lines, "")
}
