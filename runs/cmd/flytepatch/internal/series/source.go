package series

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// module is the path that this repository shares with flyteorg/flyte.
const module = "github.com/flyteorg/flyte/v2"

// Source is a checkout of this repository, which whole files are copied from.
type Source struct{ tree tree }

// FindSource looks for this repository in a directory and those above it. `go run ./runs/cmd/flytepatch` is run inside of it, and the
// embed directive reaches no package beside the tool's own: so the files are read from where they are edited.
func FindSource(dir string) (Source, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return Source{}, fmt.Errorf("find this repository from %s: %w", dir, err)
	}
	for at := start; ; at = filepath.Dir(at) {
		t := tree{dir: at}
		if modulePath(t) == module && t.exists(engineDir) && t.exists("runs/cmd/flytepatch") {
			return Source{tree: t}, nil
		}
		if at == filepath.Dir(at) {
			return Source{}, fmt.Errorf("%s is not inside the repository that has %s and runs/cmd/flytepatch: run the tool there, or name it with --from", start, engineDir)
		}
	}
}

func modulePath(t tree) string {
	content, err := os.ReadFile(t.abs("go.mod"))
	if err != nil {
		return ""
	}
	return modfile.ModulePath(content)
}

// checkModule refuses a checkout of another module, and one whose go.mod lacks what the series imports.
func checkModule(t tree) error {
	content, err := t.read("go.mod")
	if err != nil {
		return err
	}
	parsed, err := modfile.ParseLax("go.mod", content, nil)
	if err != nil {
		return fmt.Errorf("go.mod: %w", err)
	}
	if parsed.Module == nil || parsed.Module.Mod.Path != module {
		return fmt.Errorf("go.mod: module is %q, not %s", modfile.ModulePath(content), module)
	}
	required := map[string]bool{}
	for _, require := range parsed.Require {
		required[require.Mod.Path] = true
	}
	var missing []error
	for _, needed := range engineModules {
		if !required[needed] {
			missing = append(missing, fmt.Errorf("go.mod: %s is not required, and %s needs it", needed, engineDir))
		}
	}
	return errors.Join(missing...)
}
