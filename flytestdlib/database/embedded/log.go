//go:build unix

package embedded

import (
	"io"
	"os"
	"strings"
	"syscall"
)

const (
	// logLimit is the size in bytes above which a start moves the log aside; the one before that is dropped.
	logLimit = 16 << 20
	// tailBytes and tailLines bound what an error quotes of the log.
	tailBytes = 8 << 10
	tailLines = 12
)

// openLog opens the server's log for appending, and returns where the coming run's lines begin.
func openLog(path string) (log *os.File, start int64, err error) {
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	if log, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600); err != nil {
		return nil, 0, err
	}
	if start, err = log.Seek(0, io.SeekEnd); err != nil {
		_ = log.Close()
		return nil, 0, err
	}
	return log, start, nil
}

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
