package series

import (
	"strings"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/checkout"
)

// Cover is the series' cover letter.
func Cover() (checkout.Cover, error) {
	content, err := template("messages/0-cover.txt")
	if err != nil {
		return checkout.Cover{}, err
	}
	subject, text, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	return checkout.Cover{Subject: subject, Text: strings.TrimSpace(text)}, nil
}
