package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaultConfigIsValid(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
}

func TestValidateNamesFieldAndBounds(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`endpoint: "127.0.0.1:8090"`:                func(c *Config) { c.Endpoint = "127.0.0.1:8090" },
		`endpoint: "ftp://x" is no http://`:         func(c *Config) { c.Endpoint = "ftp://x" },
		`protocol: "soap" is none of grpc, grpcweb`: func(c *Config) { c.Protocol = "soap" },
		`events: "" is none of internal`:            func(c *Config) { c.Events = "" },
		`project: "a/b" must have 1 to 63`:          func(c *Config) { c.Project = "a/b" },
		`k: 0 is not between 1 and 10000`:           func(c *Config) { c.Runs = 0 },
		`n: 100001 is not between`:                  func(c *Config) { c.Actions = 100_001 },
		`concurrency: -1 is not`:                    func(c *Config) { c.Concurrency = -1 },
		`parallel: 0 is not`:                        func(c *Config) { c.Parallel = 0 },
		`event-batch: 5001 is not`:                  func(c *Config) { c.EventBatch = 5001 },
		`action-watchers: -1 is not`:                func(c *Config) { c.ActionWatchers = -1 },
		`k × n: 1000000000 actions are more`:        func(c *Config) { c.Runs, c.Actions = maxRuns, maxActions },
		`duration: -1s is not between 0s and 24h`:   func(c *Config) { c.Duration = -time.Second },
		`timeout: 0s is not between 1ms and 24h`:    func(c *Config) { c.Timeout = 0 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		err := cfg.Validate()
		if assert.Error(t, err, want) {
			assert.Contains(t, err.Error(), want)
		}
		_, err = New(cfg)
		assert.Error(t, err)
	}
}
