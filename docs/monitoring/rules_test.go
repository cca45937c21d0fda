package monitoring_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// ruleExpressions returns the expressions of a file of rules.
func ruleExpressions(t *testing.T, raw []byte) (expressions []string) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert string `yaml:"alert"`
				Expr  string `yaml:"expr"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			require.NotEmpty(t, rule.Expr, rule.Alert)
			expressions = append(expressions, rule.Expr)
		}
	}
	require.NotEmpty(t, expressions)
	return expressions
}
