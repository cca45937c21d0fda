package series

import (
	"fmt"
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/checkout"
)

// coverFile is what the cover letter says: the text of the pull request.
const coverFile = "docs/upstream.md"

// Cover is the series' cover letter.
func Cover(source Source) (checkout.Cover, error) {
	content, err := source.tree.read(coverFile)
	if err != nil {
		return checkout.Cover{}, err
	}
	title, text, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	subject, ok := strings.CutPrefix(title, "# ")
	if !ok {
		return checkout.Cover{}, fmt.Errorf("%s: it does not begin with a title", coverFile)
	}
	return checkout.Cover{Subject: subject, Text: strings.TrimSpace(text)}, nil
}
