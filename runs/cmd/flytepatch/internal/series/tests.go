package series

import (
	"maps"
	"slices"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

// adaptTests makes the package's tests fit: literals of the repository lose the fields that are gone and get element instead; a
// declaration that still needs one of the gone members, or a package-level name that is gone, tested what was replaced and goes:
// with the tests that need it in turn, and the helpers that only such tests used. It gives the names of the tests that went.
func (p *implPackage) adaptTests(gone, names map[string]bool, element string) ([]string, error) {
	for _, file := range inOrder(p.tests) {
		if _, err := file.ReplaceElements(repoType, gone, element); err != nil {
			return nil, err
		}
	}

	used := map[string]bool{}
	removed := map[string]bool{}
	for key := range p.needing(gone, names) {
		file := p.tests[key.file]
		maps.Copy(used, file.Uses(key.decl))
		if err := file.RemoveDecl(key.decl); err != nil {
			return nil, err
		}
		if name, ok := strings.CutPrefix(key.decl, "func "); ok {
			removed[name] = true
		}
	}
	if _, err := sweep(p.tests, used); err != nil {
		return nil, err
	}
	maps.DeleteFunc(removed, func(name string, _ bool) bool { return !strings.HasPrefix(name, "Test") })
	return slices.Sorted(maps.Keys(removed)), nil
}

// testDecl is a declaration in a test file.
type testDecl struct{ file, decl string }

// needing are the declarations of the tests that need one of the members or names, or one another on account of that.
func (p *implPackage) needing(members, names map[string]bool) map[testDecl]bool {
	found := map[testDecl]bool{}
	names = maps.Clone(names)
	for grown := true; grown; {
		grown = false
		for owner, wanted := range map[string]map[string]bool{repoType: members, "": names} {
			for _, name := range slices.Collect(maps.Keys(wanted)) {
				for _, file := range p.tests {
					for _, decl := range file.Mentions(owner, name) {
						at := testDecl{file.Path(), decl}
						if found[at] {
							continue
						}
						found[at], grown = true, true
						if helper, ok := strings.CutPrefix(decl, "func "); ok {
							names[helper] = true
						}
					}
				}
			}
		}
	}
	return found
}

// replaceTestTypes has tests take the given types of a package from another one.
func (p *implPackage) replaceTestTypes(from, to string, types map[string]bool) error {
	for _, file := range inOrder(p.tests) {
		old := file.ImportName(from)
		if old == "" {
			continue
		}
		changed, err := file.RenameQualifier(old, goedit.PackageName(to), types)
		if err != nil {
			return err
		}
		if len(changed) > 0 {
			if err := file.AddImport(to); err != nil {
				return err
			}
		}
	}
	return nil
}
