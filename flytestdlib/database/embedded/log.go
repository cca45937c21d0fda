//go:build unix

package embedded

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	tailBytes = 8 << 10
	tailLines = 12
)

// logTail returns the last lines that this run of the server wrote.
func (s *Server) logTail() string {
	file, err := os.Open(s.folder.log())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	content := make([]byte, end-max(s.logStart, end-tailBytes))
	if _, err := file.ReadAt(content, end-int64(len(content))); err != nil {
		return err.Error()
	}
	return lastLines(content)
}

func lastLines(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func sqlState(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}
