package series

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	texttemplate "text/template"
)

// What goes into flyteorg/flyte and is not in this repository, because there the repository holds an *sqlx.DB: below _flyte, which
// the go command does not build. action/ has the declarations that action.go gets, with the names that are there filled in;
// the other directories have whole files.
//
//go:embed _flyte
var templates embed.FS

// template is a whole file.
func template(name string) ([]byte, error) {
	content, err := templates.ReadFile(path.Join("_flyte", name))
	if err != nil {
		return nil, fmt.Errorf("read template %s: %w", name, err)
	}
	return content, nil
}

// declaration is what action.go gets for a method.
func declaration(method string, names any) (string, error) {
	content, err := template("action/" + method + ".go.tmpl")
	if err != nil {
		return "", err
	}
	parsed, err := texttemplate.New(method).Option("missingkey=error").Parse(string(content))
	if err != nil {
		return "", fmt.Errorf("parse template of %s: %w", method, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, names); err != nil {
		return "", fmt.Errorf("fill template of %s: %w", method, err)
	}
	return out.String(), nil
}
