package impl

import "fmt"

// NotifyMode says how committed changes are announced.
type NotifyMode string

const (
	// NotifyModeSerial sends one payload per round trip; a writer waits while 256 are queued. It is the measure that other modes are
	// compared with.
	NotifyModeSerial NotifyMode = "serial"
	// NotifyModeOff sends nothing: no watcher of any replica hears of changes made here. It shows what announcing costs.
	NotifyModeOff NotifyMode = "off"
)

// NotifyConfig says how committed changes are announced. The zero value is mode serial.
type NotifyConfig struct {
	Mode NotifyMode `yaml:"mode" desc:"how committed changes are announced: serial, a round trip for each; off, not at all" enum:"serial,off"`
}

// WithDefaults returns a copy in which unset fields have their default.
func (c NotifyConfig) WithDefaults() NotifyConfig {
	if c.Mode == "" {
		c.Mode = NotifyModeSerial
	}
	return c
}

func (c NotifyConfig) validate() error {
	switch c.Mode {
	case NotifyModeSerial, NotifyModeOff:
		return nil
	default:
		return fmt.Errorf("notify mode: %q is not one of %s, %s", c.Mode, NotifyModeSerial, NotifyModeOff)
	}
}

// Option changes how a repository works.
type Option func(*settings)

type settings struct {
	notify NotifyConfig
}

// WithNotifyConfig sets how committed changes are announced.
func WithNotifyConfig(config NotifyConfig) Option {
	return func(s *settings) { s.notify = config }
}
