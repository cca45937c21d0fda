package config

import (
	"fmt"
	"io"
	"strings"
)

// writeHelp lists every key with its type, default, meaning and variable.
func writeHelp(w io.Writer, keys keys, p Program) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", p.Name, p.Summary)
	fmt.Fprintf(&b, "Usage: %s [flags]\n\n", p.Name)
	fmt.Fprintf(&b, "Each key below is set by its flag, by its environment variable, or in the YAML file (its dots are nested sections).\n")
	fmt.Fprintf(&b, "A flag wins over the environment, the environment over the file, the file over the default. Unknown keys are errors.\n\n")
	fmt.Fprintf(&b, "  --help\n        print this\n")
	fmt.Fprintf(&b, "  --%s file  (default: none)\n        YAML file to read [%s_%s]\n", fileFlag, p.EnvPrefix, strings.ToUpper(fileFlag))

	var last *section
	for _, k := range keys {
		if k.section != last {
			last = k.section
			fmt.Fprintf(&b, "\n%s\n", last.title())
		}
		fmt.Fprintf(&b, "  --%s %s  (default: %s)\n", k.path, k.placeholder(), k.printableDefault())
		fmt.Fprintf(&b, "        %s [%s_%s]\n", k.desc, p.EnvPrefix, envName(k.path))
	}
	_, err := io.WriteString(w, b.String())

	return err
}

// title is the section's path and, where it has one, its description.
func (s *section) title() string {
	path := strings.TrimSuffix(s.prefix, ".")
	if s.desc == "" {
		return path
	}
	return path + ": " + s.desc
}

func (k *key) placeholder() string {
	if k.enum != nil {
		return strings.Join(k.enum, "|")
	}
	return strings.TrimRight(strings.TrimPrefix(k.flag.Value.Type(), "u"), "0123456789")
}

func (k *key) printableDefault() string {
	switch {
	case k.initial == "":
		return "none"
	case k.secret:
		return "set, not shown"
	case k.flag.Value.Type() == "duration":
		return shortDuration(k.initial)
	default:
		return k.initial
	}
}

// shortDuration leaves out the trailing zeros of 1h0m0s.
func shortDuration(s string) string {
	for _, zero := range []struct{ long, short string }{{"m0s", "m"}, {"h0m", "h"}} {
		if rest, ok := strings.CutSuffix(s, zero.long); ok {
			s = rest + zero.short
		}
	}
	return s
}
