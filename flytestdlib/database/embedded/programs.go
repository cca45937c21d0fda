//go:build unix

package embedded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// programs is one installation of PostgreSQL's server programs.
type programs struct {
	dir     string // holds initdb and postgres
	version int    // major
}

func (p programs) path(name string) string { return filepath.Join(p.dir, name) }

// installPatterns are where packages put server programs that they keep out of PATH.
var installPatterns = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // PGDG on Red Hat and relatives
	"/usr/lib/postgresql*/bin",                           // SUSE, Gentoo
	"/usr/libexec/postgresql*",                           // Alpine
	"/usr/local/pgsql/bin",                               // built from source
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew on Intel
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew on Apple silicon
	"/opt/local/lib/postgresql*/bin",                     // MacPorts
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/nix/var/nix/profiles/default/bin",
}

// findPrograms returns the installations of a supported version, newest first, that account can run. Of one version the one in PATH comes first.
func findPrograms(ctx context.Context, run *account) []programs {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range installPatterns {
		found, err := filepath.Glob(pattern)
		if err != nil { // only a malformed pattern: a constant above
			panic(err)
		}
		dirs = append(dirs, found...)
	}
	var all []programs
	seen := map[string]bool{}
	for _, dir := range dirs {
		// PATH often holds links to single programs; initdb looks for its files beside the real one.
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil || seen[filepath.Dir(real)] {
			continue
		}
		seen[filepath.Dir(real)] = true
		if p, err := inspectPrograms(ctx, filepath.Dir(real), run); err == nil {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b programs) int { return b.version - a.version })
	return all
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspectPrograms asks the programs in dir, run as the server's account would run them, for their version.
func inspectPrograms(ctx context.Context, dir string, run *account) (programs, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return programs{}, fmt.Errorf("programs in %s: %w", dir, err)
	}
	p := programs{dir: dir}
	if _, err := os.Stat(p.path("initdb")); err != nil {
		return programs{}, fmt.Errorf("programs in %s: %w", dir, err)
	}
	if err := run.reach(p.path("postgres")); err != nil {
		return programs{}, fmt.Errorf("programs in %s: %w", dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := output(command(ctx, run, p.path("postgres"), "--version"))
	if err != nil {
		return programs{}, fmt.Errorf("programs in %s: postgres --version: %w: %s", dir, err, strings.TrimSpace(string(out)))
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return programs{}, fmt.Errorf("programs in %s: postgres --version says %q", dir, strings.TrimSpace(string(out)))
	}
	if p.version, err = strconv.Atoi(string(match[1])); err != nil {
		return programs{}, fmt.Errorf("programs in %s: %w", dir, err)
	}
	if p.version < MinVersion || p.version > MaxVersion {
		return programs{}, fmt.Errorf("programs in %s: version %d is not within %d to %d", dir, p.version, MinVersion, MaxVersion)
	}
	return p, nil
}

// choosePrograms picks the programs that fit the configuration and the data that is there.
func choosePrograms(ctx context.Context, config Config, at folder, run *account) (programs, error) {
	wanted, err := at.version()
	if err != nil {
		return programs{}, err
	}
	if wanted != 0 && config.Version != 0 && wanted != config.Version {
		return programs{}, fmt.Errorf("version: the data in %s is of version %d, not %d: configure that version, or another dir", at.dir, wanted, config.Version)
	}
	wanted = max(wanted, config.Version)
	if config.BinDir != "" {
		given, err := inspectPrograms(ctx, config.BinDir, run)
		if err != nil {
			return programs{}, fmt.Errorf("binDir: %w", err)
		}
		if wanted != 0 && given.version != wanted {
			return programs{}, fmt.Errorf("binDir: %s holds version %d, not %d", config.BinDir, given.version, wanted)
		}
		return given, nil
	}
	for _, found := range findPrograms(ctx, run) {
		if wanted == 0 || found.version == wanted {
			return found, nil
		}
	}
	if wanted == 0 {
		wanted = MaxVersion
	}
	return download(ctx, wanted, config.DownloadURL, run)
}

// command prepares a PostgreSQL program to run under the given account, in English, away from this process' folder (which the
// account may not be able to enter) and without the PG* variables that would redirect it.
func command(ctx context.Context, run *account, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=/"}
	cmd.SysProcAttr = run.attributes()
	cmd.WaitDelay = 5 * time.Second // for what it leaves behind with our pipe in hand
	return cmd
}
