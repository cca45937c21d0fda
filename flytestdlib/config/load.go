package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ErrHelp is what [Load] returns after it has printed the help that was asked for.
var ErrHelp = pflag.ErrHelp

// fileFlag names the flag (and, in upper case, the variable) that gives the YAML file.
const fileFlag = "config"

// Program is the command whose configuration is loaded, and its surroundings.
type Program struct {
	// Name and Summary open the help.
	Name, Summary string
	// EnvPrefix marks the variables that belong to this program, without the underscore that follows it: FLYTE.
	EnvPrefix string
	// Args are the command line's arguments without the program's name.
	Args []string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Help is where --help goes.
	Help io.Writer
}

// Load sets the fields of cfg, a pointer to a struct that holds the defaults, from the file, the environment and the flags.
//
// After that it calls Validate() error of each outermost section that has one (it answers for the sections inside it). Its
// error must begin with the name of the field and a colon, so that the source of the value can be added to it.
//
// The error joins everything that is wrong. It is [ErrHelp] after --help; cfg is then unchanged.
func Load(cfg any, p Program) error {
	keys := keysOf(cfg)
	flags := newFlags(keys, p)

	var given []assignment
	var path assignment
	err := flags.ParseAll(p.Args, func(f *pflag.Flag, value string) error {
		a := assignment{value: value, source: "flag --" + f.Name}
		if f.Name == fileFlag {
			path = a
			return nil
		}
		a.key = keys.byPath(f.Name)
		given = append(given, a)
		return nil
	})
	if errors.Is(err, pflag.ErrHelp) {
		if err := writeHelp(p.Help, keys, p); err != nil {
			return fmt.Errorf("print help: %w", err)
		}
		return ErrHelp
	}

	var problems problems
	if err != nil {
		problems.add(flagError(keys, err))
	}
	for _, arg := range flags.Args() {
		problems.add(fmt.Errorf("unexpected argument %q", arg))
	}

	fromEnv, file := readEnv(keys, p, &problems)
	if path.source == "" {
		path = file
	}
	if path.source != "" {
		fromFile := readFile(keys, path, &problems)
		fromFile.apply(&problems)
	}
	fromEnv.apply(&problems)
	assignments(given).apply(&problems)

	if len(problems) == 0 {
		validate(cfg, keys, &problems)
	}

	return problems.err()
}

// assignment is one value that a source gives to one key.
type assignment struct {
	key    *key
	value  string
	source string
}

type assignments []assignment

// apply sets the keys in order: where two sources give the same key, the later one stays.
func (as assignments) apply(problems *problems) {
	for _, a := range as {
		if err := a.key.set(a.value, a.source); err != nil {
			problems.add(err)
		}
	}
}

// problems collects what is wrong, so that one start tells all of it.
type problems []error

func (ps *problems) add(err error) {
	*ps = append(*ps, err)
}

func (ps problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return fmt.Errorf("configuration: %w", errors.Join(ps...))
}

func newFlags(keys keys, p Program) *pflag.FlagSet {
	flags := pflag.NewFlagSet(p.Name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.String(fileFlag, "", "")
	for _, k := range keys {
		flags.AddFlag(k.flag)
	}

	return flags
}

func flagError(keys keys, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return fmt.Errorf("unknown flag --%s%s", unknown.GetSpecifiedName(), keys.suggest(unknown.GetSpecifiedName()))
	}
	return err
}

// readEnv returns what the environment sets, and the file it names.
func readEnv(keys keys, p Program, problems *problems) (fromEnv assignments, file assignment) {
	prefix := p.EnvPrefix + "_"
	environ := slices.Sorted(slices.Values(p.Environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || isServiceLink(name, value) {
			continue
		}

		source := "environment variable " + name
		rest := strings.TrimPrefix(name, prefix)
		if rest == strings.ToUpper(fileFlag) {
			file = assignment{value: value, source: source}
			continue
		}
		k := keys.byEnv(rest)
		if k == nil {
			problems.add(fmt.Errorf("unknown %s%s", source, keys.suggestEnv(prefix, rest)))
			continue
		}
		fromEnv = append(fromEnv, assignment{key: k, value: value, source: source})
	}

	return fromEnv, file
}

func readFile(keys keys, path assignment, problems *problems) assignments {
	content, err := os.ReadFile(path.value)
	if err != nil {
		problems.add(fmt.Errorf("read the file given by %s: %w", path.source, err))
		return nil
	}

	return parseFile(keys, path.value, content, problems)
}
