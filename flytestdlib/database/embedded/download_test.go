//go:build unix

package embedded

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository serves, for every release, a jar as Maven Central's: its archive holds scripts in place of the programs; postgres says that
// it is version 17. (testdata/programs.txz: bin/initdb, bin/pg_ctl, bin/postgres, packed by tar and xz.)
func repository(t *testing.T, checksum func(jar []byte) string) (url string, requests *[]string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir()) // the library leaves an empty log file there
	archive, err := os.ReadFile("testdata/programs.txz")
	require.NoError(t, err)
	var jar bytes.Buffer
	packed := zip.NewWriter(&jar)
	entry, err := packed.Create("postgres-linux-x86_64.txz")
	require.NoError(t, err)
	_, err = entry.Write(archive)
	require.NoError(t, err)
	require.NoError(t, packed.Close())

	requests = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests = append(*requests, r.URL.Path)
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = w.Write([]byte(checksum(jar.Bytes())))
			return
		}
		_, _ = w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func goodSum(jar []byte) string { return fmt.Sprintf("%x", sha256.Sum256(jar)) }

func TestProgramsAreDownloadedOnceAndChecked(t *testing.T) {
	url, requests := repository(t, goodSum)
	cache := filepath.Join(publicDir(t), "cache")
	first, err := downloadTo(t.Context(), cache, 17, url, nil)
	require.NoError(t, err)
	require.Equal(t, 17, first.version)
	require.Len(t, *requests, 2)
	require.Contains(t, (*requests)[0], "17.5.0")
	second, err := downloadTo(t.Context(), cache, 17, url, nil)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Len(t, *requests, 2)
	leftOver, err := filepath.Glob(filepath.Join(cache, "fetch-*"))
	require.NoError(t, err)
	require.Empty(t, leftOver)
}

func TestAFailedDownloadSaysWhatWasMissingAndWhatHelps(t *testing.T) {
	url, _ := repository(t, func([]byte) string { return "0000" })
	_, err := downloadTo(t.Context(), publicDir(t), 17, url, nil)
	require.ErrorContains(t, err, "no server programs of version 17 on this machine (install PostgreSQL, or set binDir); download from "+url)
	require.ErrorContains(t, err, "checksums do not match")

	_, err = downloadTo(t.Context(), publicDir(t), 17, "http://127.0.0.1:1", nil)
	require.ErrorContains(t, err, "unable to connect to http://127.0.0.1:1")
}

func TestProgramsForRootAreKeptWhereTheServersAccountCanGo(t *testing.T) {
	cache, err := cacheDir()
	require.NoError(t, err)
	run, err := serverAccount("", "")
	require.NoError(t, err)
	require.NoError(t, run.reach(filepath.Join(cache, "17.5.0", "bin", "postgres")))
}

func TestEveryVersionCanBeDownloaded(t *testing.T) {
	for version := MinVersion; version <= MaxVersion; version++ {
		require.True(t, strings.HasPrefix(string(downloadable[version]), fmt.Sprintf("%d.", version)), version)
	}
}
