package goedit

import (
	"bytes"
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// Field is a named field of a struct.
type Field struct {
	Name string
	Type string // as it is written
}

// Fields are the struct's named fields in order; nil if the file declares no such struct.
func (f *File) Fields(structName string) []Field {
	_, typ := f.structType(structName)
	if typ == nil {
		return nil
	}
	var fields []Field
	for _, field := range typ.Fields.List {
		for _, name := range field.Names {
			fields = append(fields, Field{Name: name.Name, Type: f.text(field.Type)})
		}
	}
	return fields
}

func (f *File) structType(name string) (key string, typ *ast.StructType) {
	for _, decl := range f.syntax.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.Name == name {
				if typ, ok := spec.Type.(*ast.StructType); ok {
					return declKey(decl), typ
				}
			}
		}
	}
	return "", nil
}

func (f *File) field(structName, name string) (key string, field *ast.Field, err error) {
	key, typ := f.structType(structName)
	if typ == nil {
		return "", nil, fmt.Errorf("%s: there is no struct %s", f.path, structName)
	}
	for _, field := range typ.Fields.List {
		if slices.ContainsFunc(field.Names, func(ident *ast.Ident) bool { return ident.Name == name }) {
			return key, field, nil
		}
	}
	return "", nil, fmt.Errorf("%s: struct %s has no field %s", f.path, structName, name)
}

// SetFieldType gives a field another type.
func (f *File) SetFieldType(structName, name, typ string) error {
	key, field, err := f.field(structName, name)
	if err != nil {
		return err
	}
	f.touched[key] = true
	return f.splice(span{f.offset(field.Type.Pos()), f.offset(field.Type.End())}, typ)
}

// ReplaceField puts text (one or more fields with their comments) where the field was, its own comments included.
func (f *File) ReplaceField(structName, name, text string) error {
	key, field, err := f.field(structName, name)
	if err != nil {
		return err
	}
	f.touched[key] = true
	if len(field.Names) > 1 {
		// One of several names before one type: the others keep it.
		if err := f.RemoveField(structName, name); err != nil {
			return err
		}
		return f.AddField(structName, text)
	}
	at := f.fieldSpan(field)
	return f.splice(at, strings.TrimSpace(text))
}

// RemoveField takes a field and its comments away.
func (f *File) RemoveField(structName, name string) error {
	key, field, err := f.field(structName, name)
	if err != nil {
		return err
	}
	f.touched[key] = true
	if len(field.Names) == 1 {
		at, alone := f.wholeLines(f.fieldSpan(field))
		if !alone {
			return f.splice(at, "")
		}
		return f.cut(at)
	}
	var kept []string
	for _, ident := range field.Names {
		if ident.Name != name {
			kept = append(kept, ident.Name)
		}
	}
	names := span{f.offset(field.Names[0].Pos()), f.offset(field.Names[len(field.Names)-1].End())}
	return f.splice(names, strings.Join(kept, ", "))
}

// AddField puts text (one or more fields with their comments) behind the struct's last field.
func (f *File) AddField(structName, text string) error {
	key, typ := f.structType(structName)
	if typ == nil {
		return fmt.Errorf("%s: there is no struct %s", f.path, structName)
	}
	f.touched[key] = true
	at := f.offset(typ.Fields.Closing)
	line := bytes.LastIndexByte(f.src[:at], '\n') + 1
	return f.splice(span{line, line}, strings.TrimSpace(text)+"\n")
}

func (f *File) fieldSpan(field *ast.Field) span {
	start, end := field.Pos(), field.End()
	if field.Doc != nil {
		start = field.Doc.Pos()
	}
	if field.Comment != nil {
		end = field.Comment.End()
	}
	return span{f.offset(start), f.offset(end)}
}
