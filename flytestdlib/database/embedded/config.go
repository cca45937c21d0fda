//go:build unix

package embedded

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The oldest and the newest major version of PostgreSQL that the embedded server is run with.
const (
	MinVersion = 14
	MaxVersion = 18
)

// DefaultDir is where the data is kept, seen from the working directory, when Config.Dir is empty.
const DefaultDir = ".data/postgres"

// Config says where the server keeps its data and how it is reached. It is a section of a service's configuration; what only code decides
// is an Option.
type Config struct {
	// Dir also holds the log and the lock: one server per folder. Empty: DefaultDir or, when the server's account cannot reach that
	// (a checkout under /root), a folder of its own under /var/lib/flyte-postgres.
	Dir string `yaml:"dir" desc:"folder that keeps the data between starts; empty: .data/postgres under the working directory"`
	// Port 0 takes a free one, another one at each start.
	Port int `yaml:"port" desc:"TCP port on 127.0.0.1 (1 to 65535); 0: a free one"`
	// Version 0 takes that of the data in Dir, else the newest one that is found.
	Version int `yaml:"version" desc:"major version of PostgreSQL (14 to 18); 0: that of the data, else the newest found"`
	// BinDir empty looks in PATH and the usual install folders, and downloads as the last resort.
	BinDir string `yaml:"binDir" desc:"folder that holds initdb and postgres; empty: searched, and downloaded where there is none"`
	// DownloadURL is asked for binaries built by the zonkyio/embedded-postgres-binaries project.
	DownloadURL string `yaml:"downloadUrl" desc:"Maven repository from which server programs are downloaded when the machine has none; empty: the embedded-postgres library's own choice"`
	// Account matters only to root. Empty: the owner of the data, else postgres, else nobody.
	Account string `yaml:"account" desc:"account that the server runs under when this process is root, which PostgreSQL refuses; empty: owner of the data, postgres or nobody"`
	// StartTimeout includes initdb and crash recovery, but not a download, which has a limit of its own.
	StartTimeout time.Duration `yaml:"startTimeout" desc:"longest time until the server answers, crash recovery included (duration)"`
	// StopTimeout bounds each step: fast, then immediate, then by force.
	StopTimeout time.Duration `yaml:"stopTimeout" desc:"longest time that the server gets to stop by itself (duration)"`
}

// DefaultConfig is a lasting server in DefaultDir on a free port.
func DefaultConfig() Config { return Config{}.WithDefaults() }

// WithDefaults returns a copy in which every zero value that has a default is replaced by it.
func (c Config) WithDefaults() Config {
	if c.StartTimeout == 0 {
		c.StartTimeout = 60 * time.Second
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 20 * time.Second
	}
	return c
}

// Validate checks bounds after defaults. The error joins everything that is wrong; each part begins with the field's key and names the bound.
func (c Config) Validate() error {
	var wrong []error
	if c.Port < 0 || c.Port > 65535 {
		wrong = append(wrong, fmt.Errorf("port: %d is not within 0 to 65535", c.Port))
	}
	if c.Version != 0 && (c.Version < MinVersion || c.Version > MaxVersion) {
		wrong = append(wrong, fmt.Errorf("version: %d is neither 0 nor within %d to %d", c.Version, MinVersion, MaxVersion))
	}
	if at, err := url.Parse(c.DownloadURL); c.DownloadURL != "" && (err != nil || at.Host == "") {
		wrong = append(wrong, fmt.Errorf("downloadUrl: %q is no URL with a host", c.DownloadURL))
	}
	if c.StartTimeout < time.Second {
		wrong = append(wrong, fmt.Errorf("startTimeout: %s is below 1s", c.StartTimeout))
	}
	if c.StopTimeout < time.Second {
		wrong = append(wrong, fmt.Errorf("stopTimeout: %s is below 1s", c.StopTimeout))
	}
	return errors.Join(wrong...)
}

// Option decides what a service's users have no say in.
type Option func(*options)

type options struct {
	user, password string
	settings       map[string]string
	ephemeral      bool
	withoutSync    bool
}

// WithCredentials names the superuser, postgres/postgres without it. They are set when the data is created and must stay the same for it.
func WithCredentials(user, password string) Option {
	return func(o *options) { o.user, o.password = user, password }
}

// WithSettings adds server settings by their postgresql.conf names, e.g. max_connections. Those that keep the server private and
// findable (address, port, sockets, files) are refused.
func WithSettings(settings map[string]string) Option {
	return func(o *options) { maps.Copy(o.settings, settings) }
}

// WithoutSync does not have the server wait for the disk: data outlives the server's death, but not the machine's. For tests.
func WithoutSync() Option {
	return func(o *options) { o.withoutSync = true }
}

// Ephemeral keeps the data in a temporary folder, which goes with the server, and implies WithoutSync. For tests.
func Ephemeral() Option {
	return func(o *options) { o.ephemeral, o.withoutSync = true, true }
}

var reservedSettings = []string{"listen_addresses", "port", "unix_socket_directories", "data_directory", "hba_file", "ident_file", "external_pid_file"}

func collect(config Config, given []Option) (options, error) {
	o := options{user: "postgres", password: "postgres", settings: map[string]string{}}
	for _, option := range given {
		option(&o)
	}
	switch {
	case o.user == "" || o.password == "":
		return o, errors.New("credentials: neither user nor password may be empty")
	case strings.ContainsAny(o.password, "\r\n\x00"):
		return o, errors.New("credentials: the password may not hold line breaks or NUL")
	case o.ephemeral && config.Dir != "":
		return o, fmt.Errorf("dir: must be empty for an ephemeral server, is %q", config.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(o.settings)) {
		if slices.Contains(reservedSettings, strings.ToLower(name)) {
			return o, fmt.Errorf("settings: %s is not free to be set", name)
		}
	}
	return o, nil
}
