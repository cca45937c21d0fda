package logger

import (
	"fmt"
	"log/slog"
)

// Config says what is logged and how. The zero value means level info in text.
type Config struct {
	// Level is the least severe level that is written: debug, info (default), warn or error.
	Level Level `yaml:"level" desc:"least severe level that is logged" enum:"debug,info,warn,error"`
	// Format is text (default; key=value, for people) or json (one object a line, for log collectors).
	Format Format `yaml:"format" desc:"form of a log line" enum:"text,json"`
}

// Level names a severity.
type Level string

// The levels, least severe first.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// Format names the form of a log line.
type Format string

// The formats.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// DefaultConfig is level info in text.
func DefaultConfig() Config {
	return Config{Level: LevelInfo, Format: FormatText}
}

// Validate tells which field holds an unknown name.
func (c Config) Validate() error {
	if _, err := c.Level.severity(); err != nil {
		return err
	}

	switch c.Format {
	case FormatText, FormatJSON, "":
		return nil
	default:
		return fmt.Errorf("format: %q is none of text, json", c.Format)
	}
}

func (l Level) severity() (slog.Level, error) {
	switch l {
	case LevelDebug:
		return slog.LevelDebug, nil
	case LevelInfo, "":
		return slog.LevelInfo, nil
	case LevelWarn:
		return slog.LevelWarn, nil
	case LevelError:
		return slog.LevelError, nil
	default:
		return 0, fmt.Errorf("level: %q is none of debug, info, warn, error", l)
	}
}
