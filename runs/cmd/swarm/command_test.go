package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func execute(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func TestErrorsAreOneClearLine(t *testing.T) {
	for want, args := range map[string][]string{
		"no runs service answers at http://127.0.0.1:1: ":  {"--endpoint", "http://127.0.0.1:1"},
		"k: 0 is not between 1 and 10000":                  {"--k", "0"},
		`invalid argument "many" for "--n" flag: `:         {"--n", "many"},
		"unknown flag: --m":                                {"--m", "1"},
		`unknown command "http://127.0.0.1:1" for "swarm"`: {"http://127.0.0.1:1"},
	} {
		out, err := execute(t.Context(), args...)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "\n")
		assert.Empty(t, out)
	}
}

func TestInterruptedBeforeTheLoad(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := execute(ctx, "--endpoint", "http://127.0.0.1:1")
	require.ErrorIs(t, err, errInterrupted)
}

func TestEveryFlagIsDescribed(t *testing.T) {
	out, err := execute(t.Context(), "--help")
	require.NoError(t, err)
	command().Flags().VisitAll(func(f *pflag.Flag) {
		assert.NotEmpty(t, f.Usage, f.Name)
		assert.Contains(t, out, "--"+f.Name)
	})
}
