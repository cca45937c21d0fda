//go:build unix

package embedded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestValidateNamesKeyAndBound(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	for want, change := range map[string]func(*Config){
		"port: 65536 is not within 0 to 65535":              func(c *Config) { c.Port = 65536 },
		"version: 13 is neither 0 nor within 14 to 18":      func(c *Config) { c.Version = 13 },
		`downloadUrl: "nowhere" is no URL with a host`:      func(c *Config) { c.DownloadURL = "nowhere" },
		"startTimeout: 1ms is below 1s":                     func(c *Config) { c.StartTimeout = time.Millisecond },
		"stopTimeout: -1s is below 1s":                      func(c *Config) { c.StopTimeout = -time.Second },
		"port: -1 is not within 0 to 65535\nstopTimeout: 0": func(c *Config) { c.Port, c.StopTimeout = -1, 0 },
	} {
		config := DefaultConfig()
		change(&config)
		require.ErrorContains(t, config.Validate(), want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, given := range map[string]Option{
		"settings: Port is not free to be set":   WithSettings(map[string]string{"Port": "1"}),
		"neither user nor password may be empty": WithCredentials("postgres", ""),
		"may not hold line breaks":               WithCredentials("postgres", "a\nb"),
	} {
		_, err := Start(t.Context(), Config{}, Ephemeral(), given)
		require.ErrorContains(t, err, want)
	}
	_, err := Start(t.Context(), Config{Dir: "somewhere"}, Ephemeral())
	require.ErrorContains(t, err, `dir: must be empty for an ephemeral server, is "somewhere"`)
}
