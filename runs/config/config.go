// Package config is the configuration of the runs service: all its sections, their defaults, and how they are loaded.
package config

import (
	"io"

	"github.com/flyteorg/flyte/v2/flytestdlib/app"
	"github.com/flyteorg/flyte/v2/flytestdlib/config"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
	"github.com/flyteorg/flyte/v2/runs/service"
)

// Config is everything that can be set.
type Config struct {
	Server   app.Config    `yaml:"server"`
	Logger   logger.Config `yaml:"logger"`
	Database Database      `yaml:"database"`
	Runs     Runs          `yaml:"runs"`
}

// Runs is what is special to this service.
type Runs struct {
	Service service.Config    `yaml:",inline"`
	Notify  impl.NotifyConfig `yaml:"notify"`
}

// Default is a service for its own machine, on a database that it starts itself.
func Default() Config {
	return Config{
		Server:   app.DefaultConfig(),
		Logger:   logger.DefaultConfig(),
		Database: defaultDatabase(),
		Runs: Runs{
			Service: service.DefaultConfig(),
			Notify:  impl.NotifyConfig{}.WithDefaults(),
		},
	}
}

// Load returns the defaults as changed by the YAML file, the environment (FLYTE_…) and the command line. The error is
// config.ErrHelp of flytestdlib after help was asked for and written to help.
func Load(args, environ []string, help io.Writer) (Config, error) {
	cfg := Default()
	err := config.Load(&cfg, config.Program{
		Name:      "runs",
		Summary:   "keeps Flyte's runs and actions in PostgreSQL and streams their changes to watchers",
		EnvPrefix: "FLYTE",
		Args:      args,
		Environ:   environ,
		Help:      help,
	})

	return cfg, err
}
