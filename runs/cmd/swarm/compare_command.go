package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/load"
	"github.com/flyteorg/flyte/v2/runs/cmd/swarm/internal/trial"
)

func compareCommand() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "compare BEFORE.json AFTER.json",
		Short: "Set two results of swarm --json side by side",
		Long: `compare sets what swarm --json printed for two endpoints side by side. It knows of one load each, so there is no spread:
swarm bench repeats, and measures what is behind the endpoint.`,
		Example: `  swarm --endpoint http://before:8090 --duration 1m --json > before.json
  swarm --endpoint http://after:8090 --duration 1m --json > after.json
  swarm compare before.json after.json --report compare.html`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			set, err := compare(args[0], args[1])
			if err != nil {
				return err
			}
			set.Command = commandLine(cmd)
			return conclude(cmd, out, set)
		},
	}
	cmd.Flags().SortFlags = false
	out.flags(cmd.Flags())
	return cmd
}

func compare(before, after string) (*trial.Set, error) {
	set := &trial.Set{Title: "two endpoints compared"}
	names := [2]string{sideName(before), sideName(after)}
	if names[0] == names[1] {
		names = [2]string{before, after}
	}
	if before == after {
		return nil, fmt.Errorf("%s: is compared with itself", before)
	}
	for i, file := range []string{before, after} {
		result, err := readResult(file)
		if err != nil {
			return nil, err
		}
		t := &trial.Trial{Side: names[i], Round: 1, Load: result}
		if err := result.Verdict(); err != nil {
			t.Void = []string{err.Error()}
		}
		c := result.Config
		set.Trials = append(set.Trials, t)
		set.Sides = append(set.Sides, trial.Side{Name: names[i]})
		set.Facts = append(set.Facts, trial.Fact{Name: names[i], Value: fmt.Sprintf(
			"%s on %s: %d runs × %d actions, %d runs and %d actions at a time, events %s by %d, over %s, %.1f s",
			c.Endpoint, result.Started.Format("2006-01-02 15:04"), c.Runs, c.Actions, c.Parallel, c.Concurrency, c.Events, c.EventBatch, c.Protocol,
			result.Seconds)})
		set.Seconds += result.Seconds
	}
	set.Started = set.Trials[0].Load.Started
	set.Pairs = []trial.Pair{{Subject: names[1], Reference: names[0]}}
	if a, b := size(set.Trials[0].Load.Config), size(set.Trials[1].Load.Config); a != b {
		set.Facts = append(set.Facts, trial.Fact{Name: "beware", Value: "the two loads were not the same"})
	}
	return set, nil
}

// size is the configuration without what says where.
func size(c load.Config) load.Config {
	c.Endpoint, c.Org, c.Project, c.Domain = "", "", "", ""
	return c
}

func sideName(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

func readResult(file string) (*load.Result, error) {
	var result load.Result
	if err := readJSON(file, &result); err != nil {
		return nil, err
	}
	if result.Config.Endpoint == "" {
		return nil, fmt.Errorf("%s: is not what swarm --json prints", file)
	}
	return &result, nil
}

func readSet(file string) (*trial.Set, error) {
	var set trial.Set
	if err := readJSON(file, &set); err != nil {
		return nil, err
	}
	if len(set.Sides) == 0 {
		return nil, fmt.Errorf("%s: is not what swarm bench --save writes", file)
	}
	for _, t := range set.Trials {
		if t == nil || t.Load == nil {
			return nil, fmt.Errorf("%s: has a trial without a load", file)
		}
	}
	return &set, nil
}

func readJSON(file string, into any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: is no JSON that swarm has written: %w", file, err)
	}
	return nil
}
