//go:build unix

package embedded

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// downloadTimeout bounds fetching and unpacking some 20 MB of server programs.
const downloadTimeout = 5 * time.Minute

var downloadable = map[int]embeddedpostgres.PostgresVersion{
	14: embeddedpostgres.V14,
	15: embeddedpostgres.V15,
	16: embeddedpostgres.V16,
	17: embeddedpostgres.V17,
	18: embeddedpostgres.V18,
}

// download returns server programs of a version that the machine does not have.
func download(ctx context.Context, version int, repository string, run *account) (programs, error) {
	cache, err := cacheDir()
	if err != nil {
		return programs{}, fmt.Errorf("no server programs of version %d on this machine, and no place to download to: %w", version, err)
	}
	return downloadTo(ctx, cache, version, repository, run)
}

// downloadTo takes the programs from the cache, which it fills from a Maven repository first if need be.
func downloadTo(ctx context.Context, cache string, version int, repository string, run *account) (programs, error) {
	release := downloadable[version]
	home := filepath.Join(cache, fmt.Sprintf("%s-%s-%s", release, runtime.GOOS, runtime.GOARCH))
	if found, err := inspectPrograms(ctx, filepath.Join(home, "bin"), run); err == nil {
		return found, nil
	}
	source := cmp.Or(repository, "the default Maven repository")
	logger.Infof(ctx, "embedded postgresql: no server programs of version %d on this machine: downloading release %s from %s", version, release, source)
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	fetched := make(chan error, 1)
	go func() { fetched <- fetch(release, version, repository, cache, home) }()
	var err error
	select {
	case err = <-fetched:
	case <-ctx.Done(): // the library takes no context: its request goes on until it ends by itself
		err = ctx.Err()
	}
	if err != nil {
		return programs{}, fmt.Errorf("no server programs of version %d on this machine (install PostgreSQL, or set binDir); download from %s: %w", version, source, err)
	}
	return inspectPrograms(ctx, filepath.Join(home, "bin"), run)
}

// cacheDir is a folder that nobody else can put programs into, and that the server's account can reach.
func cacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/flyte-postgres", nil
	}
	user, err := os.UserCacheDir()
	return filepath.Join(user, "flyte-postgres"), err
}

// fetch has the library download and unpack a release, beside its place and moved there when complete, as others may do the same now.
//
// The only way to that is the library's Start, which would go on to start a server under our own account. It finds a data folder with
// nothing but a version in it, which it does not initialize and which the server refuses at once; that error is expected, and
// whether there are programs decides.
func fetch(release embeddedpostgres.PostgresVersion, version int, repository, cache, home string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staging) }()
	unpacked, data := filepath.Join(staging, "programs"), filepath.Join(staging, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(strconv.Itoa(version)), 0o600); err != nil {
		return err
	}
	port, err := choosePort(0)
	if err != nil {
		return err
	}
	config := embeddedpostgres.DefaultConfig()
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	err = embeddedpostgres.NewDatabase(config.
		Version(release).
		CachePath(staging).
		BinariesPath(unpacked).
		RuntimePath(filepath.Join(staging, "run")).
		DataPath(data).
		Port(uint32(port)).
		Logger(io.Discard)).Start()
	http.DefaultClient.CloseIdleConnections() // the library's requests go through it, and nobody else would close them
	if _, missing := os.Stat(filepath.Join(unpacked, "bin", "postgres")); missing != nil {
		return fmt.Errorf("%w (%w)", err, missing)
	}
	if err := os.Rename(unpacked, home); err != nil {
		if _, missing := os.Stat(filepath.Join(home, "bin", "postgres")); missing != nil {
			return err
		}
	}
	return nil
}
