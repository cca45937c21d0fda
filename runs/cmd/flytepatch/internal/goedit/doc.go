// Package goedit changes a Go source file by its declarations: functions and methods by name, struct fields by name, imports
// by path. Positions come from go/ast, the change is a splice of bytes; the file is never printed anew.
//
//	Parse ──▶ edit, edit, … ──▶ Finish ──▶ bytes
//	           each splices and       formats the declarations that were touched (only them) and proves
//	           parses again           that everything else is, byte for byte, what was read
//
// Why not a printer (go/printer, dst): it lays out the whole file, so that a file that was not gofmt-clean, or that carries
// comments in unusual places, would change where nobody asked for it. A reviewer's diff must hold the change and nothing else.
//
// The package knows Go syntax. It resolves no types: a field is found by its name after a dot or as a key in a literal of its
// struct. Callers pick names that are specific enough, and compile the result.
package goedit
