package series

import (
	"maps"
	"slices"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

// testDecl is a declaration in a test file.
type testDecl struct{ file, decl string }

// adaptTests makes the package's tests fit: literals of the repository lose the fields that are gone and get element instead; a
// declaration that still needs one of the gone members, or a package-level name that is gone, tested what was replaced and goes:
// with the tests that need it in turn, and the helpers that only such tests used. It gives the names of the tests that went.
func (p *implPackage) adaptTests(members, names map[string]bool, element string) ([]string, error) {
	goners := map[testDecl]bool{}
	for _, file := range inOrder(p.tests) {
		if _, err := file.ReplaceElements(repoType, members, element); err != nil {
			return nil, err
		}
		for owner, gone := range map[string]map[string]bool{repoType: members, "": names} {
			for name := range gone {
				for _, key := range file.Mentions(owner, name) {
					goners[testDecl{file.Path(), key}] = true
				}
			}
		}
	}
	spread(p.tests, goners)

	used := map[string]bool{}
	var removed []string
	for at := range goners {
		maps.Copy(used, p.tests[at.file].Uses(at.decl))
		if name, ok := strings.CutPrefix(at.decl, "func "); ok && strings.HasPrefix(name, "Test") {
			removed = append(removed, name)
		}
	}
	if err := removeAll(p.tests, goners); err != nil {
		return nil, err
	}
	if _, err := sweep(p.tests, used); err != nil {
		return nil, err
	}
	slices.Sort(removed)
	return removed, nil
}

// spread adds what can't do without a declaration of the set: what uses a name that it declares.
func spread(files map[string]*goedit.File, set map[testDecl]bool) {
	asked := map[testDecl]bool{}
	for grown := true; grown; {
		grown = false
		for _, at := range slices.Collect(maps.Keys(set)) {
			if asked[at] {
				continue
			}
			asked[at], grown = true, true
			for _, name := range files[at.file].NamesOf(at.decl) {
				for _, file := range files {
					for _, key := range file.Mentions("", name) {
						set[testDecl{file.Path(), key}] = true
					}
				}
			}
		}
	}
}

func removeAll(files map[string]*goedit.File, set map[testDecl]bool) error {
	for at := range set {
		if err := files[at.file].RemoveDecl(at.decl); err != nil {
			return err
		}
	}
	return nil
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
