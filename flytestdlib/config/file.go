package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// parseFile returns what the YAML document sets. An empty document, or an empty section, sets nothing.
func parseFile(keys keys, name string, content []byte, problems *problems) assignments {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		problems.add(fmt.Errorf("%s: %w", name, err))
		return nil
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		problems.add(fmt.Errorf("%s: more than one document", name))
		return nil
	}

	f := fileReader{keys: keys, name: name, problems: problems}
	f.section("", document.Content[0])

	return f.found
}

// fileReader walks the tree of one document.
type fileReader struct {
	keys     keys
	name     string
	problems *problems
	found    assignments
}

func (f *fileReader) section(path string, node *yaml.Node) {
	node = resolved(node)
	if isNull(node) {
		return
	}
	if node.Kind != yaml.MappingNode {
		f.problem(node, "%s is a section, not a value", orDocument(path))
		return
	}

	lines := map[string]int{}
	for i := 0; i < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if first, seen := lines[name.Value]; seen {
			f.problem(name, "key %s is given twice, first in line %d", join(path, name.Value), first)
			continue
		}
		lines[name.Value] = name.Line
		f.entry(join(path, name.Value), name, value)
	}
}

func (f *fileReader) entry(path string, name, value *yaml.Node) {
	if f.keys.isSection(path) {
		f.section(path, value)
		return
	}

	k := f.keys.byPath(path)
	value = resolved(value)
	switch {
	case k == nil:
		f.problem(name, "unknown key %s%s", path, f.keys.suggest(path))
	case value.Kind != yaml.ScalarNode:
		f.problem(value, "%s is a value, not a section or list", path)
	case isNull(value):
		f.problem(value, `%s has no value (write "" for an empty text)`, path)
	default:
		f.found = append(f.found, assignment{key: k, value: value.Value, source: f.place(value)})
	}
}

func (f *fileReader) problem(at *yaml.Node, format string, args ...any) {
	f.problems.add(fmt.Errorf("%s: %s", f.place(at), fmt.Sprintf(format, args...)))
}

func (f *fileReader) place(at *yaml.Node) string {
	return fmt.Sprintf("%s, line %d", f.name, at.Line)
}

// resolved follows an alias to the node it stands for.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

func orDocument(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
