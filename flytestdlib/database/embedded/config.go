//go:build unix

package embedded

import (
	"fmt"
	"time"
)

// The oldest and the newest major version of PostgreSQL that the embedded server is run with.
const (
	MinVersion = 14
	MaxVersion = 18
)

// The values that WithDefaults puts in place of zeros.
const (
	DefaultDir          = ".data/postgres"
	DefaultUser         = "postgres"
	DefaultPassword     = "postgres"
	DefaultStartTimeout = 60 * time.Second
	DefaultStopTimeout  = 20 * time.Second
)

// Config says where the server keeps its data and how it is reached. The zero value is a lasting server in DefaultDir on a free port.
type Config struct {
	// Dir is the folder for data, log and lock; one server per folder. Empty: DefaultDir under the working directory or, when the
	// server's account cannot reach that (a checkout under /root), a folder of the project's own under /var/lib.
	Dir string `mapstructure:"dir" desc:"folder that keeps the embedded server's data between starts; empty: .data/postgres under the working directory"`
	// Port is the TCP port on 127.0.0.1; 0 takes a free one, another one at each start.
	Port int `mapstructure:"port" desc:"TCP port of the embedded server on 127.0.0.1 (1 to 65535); 0: a free one"`
	// Version is the major version to run; 0 takes that of the data in Dir, else the newest one found.
	Version int `mapstructure:"version" desc:"major version of PostgreSQL (14 to 18); 0: that of the data, else the newest found"`
	// BinDir is the folder of the server programs; empty looks in PATH and the usual install folders, and downloads as the last resort.
	BinDir string `mapstructure:"binDir" desc:"folder that holds initdb and postgres; empty: searched, and downloaded when there is none"`
	// Account is the account that the server runs under when this process is root. Empty: the owner of Dir, else postgres, else nobody.
	Account string `mapstructure:"account" desc:"account to run the server under when started as root, which PostgreSQL refuses; empty: owner of dir, postgres or nobody"`
	// User and Password are the superuser's; they are set when the data is created and have to stay the same afterwards.
	User     string `mapstructure:"-"`
	Password string `mapstructure:"-"`
	// Settings are further server settings (postgresql.conf names), e.g. max_connections. Address, port and sockets are not among them.
	Settings map[string]string `mapstructure:"-"`
	// Ephemeral keeps the data in a folder of its own in the temporary folder, removes it at Stop, and does not wait for the disk
	// (fsync off). Dir must be empty.
	Ephemeral bool `mapstructure:"-"`
	// StartTimeout bounds Start, crash recovery included; StopTimeout bounds each step of stopping (fast, immediate, kill).
	StartTimeout time.Duration `mapstructure:"startTimeout" desc:"longest time until the embedded server answers, crash recovery included (duration)"`
	StopTimeout  time.Duration `mapstructure:"stopTimeout" desc:"longest time that the embedded server gets to stop by itself (duration)"`
}

// WithDefaults returns a copy in which every zero value that has a default is replaced by it. Dir stays empty: its default depends on who can reach it.
func (c Config) WithDefaults() Config {
	if c.User == "" {
		c.User = DefaultUser
	}
	if c.Password == "" {
		c.Password = DefaultPassword
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = DefaultStartTimeout
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = DefaultStopTimeout
	}
	return c
}

// reserved settings are what makes the server private and findable.
var reserved = []string{"listen_addresses", "port", "unix_socket_directories", "data_directory", "hba_file"}

// Validate checks bounds after defaults; the error names the field and the bound.
func (c Config) Validate() error {
	switch {
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("port: %d is not within 0 to 65535", c.Port)
	case c.Version != 0 && (c.Version < MinVersion || c.Version > MaxVersion):
		return fmt.Errorf("version: %d is neither 0 nor within %d to %d", c.Version, MinVersion, MaxVersion)
	case c.Ephemeral && c.Dir != "":
		return fmt.Errorf("dir: must be empty for an ephemeral server, is %q", c.Dir)
	case c.StartTimeout < time.Second:
		return fmt.Errorf("startTimeout: %s is below 1s", c.StartTimeout)
	case c.StopTimeout < time.Second:
		return fmt.Errorf("stopTimeout: %s is below 1s", c.StopTimeout)
	}
	for _, name := range reserved {
		if _, set := c.Settings[name]; set {
			return fmt.Errorf("settings: %s is not free to be set", name)
		}
	}
	return nil
}
