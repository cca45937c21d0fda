package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/report"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

// output is where a comparison goes.
type output struct {
	asJSON          bool
	save, page, svg string // files, or empty
}

func (o *output) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.asJSON, "json", false, "print all that was measured, every trial, as JSON (default: as tables)")
	flags.StringVar(&o.save, "save", "", "write the same JSON to this `file` too")
	flags.StringVar(&o.page, "report", "", "write charts and tables to this HTML `file`, which needs no other")
	flags.StringVar(&o.svg, "svg", "", "write the picture of before and after to this SVG `file`")
}

// check tells, before anything is measured, of a file that could not be written.
func (o *output) check() error {
	for _, file := range []struct{ flag, path string }{{"save", o.save}, {"report", o.page}, {"svg", o.svg}} {
		if file.path == "" {
			continue
		}
		probe, err := os.CreateTemp(filepath.Dir(file.path), ".swarm-")
		if err != nil {
			return fmt.Errorf("%s: %w", file.flag, err)
		}
		_ = probe.Close()
		if err := os.Remove(probe.Name()); err != nil {
			return fmt.Errorf("%s: %w", file.flag, err)
		}
	}
	return nil
}

func (o *output) write(out io.Writer, set *trial.Set) error {
	for _, file := range []struct {
		path  string
		write func(io.Writer, *trial.Set) error
	}{{o.save, report.SetJSON}, {o.page, report.Page}, {o.svg, report.Picture}} {
		if file.path == "" {
			continue
		}
		if err := writeFile(file.path, set, file.write); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "written:", file.path)
	}
	write := report.SetText
	if o.asJSON {
		write = report.SetJSON
	}
	if err := write(out, set); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func writeFile(path string, set *trial.Set, write func(io.Writer, *trial.Set) error) error {
	var content bytes.Buffer
	if err := write(&content, set); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, content.Bytes(), 0o644)
}
