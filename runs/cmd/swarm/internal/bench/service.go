package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/database"
)

const (
	servicePackage = "github.com/flyteorg/flyte/v2/runs/cmd"
	startTimeout   = 2 * time.Minute
	stopTimeout    = 30 * time.Second
	lastLines      = 5
)

// build compiles the service into dir.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "runs")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, servicePackage).CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("build the service (--service names a built one): %w: %s", err, strings.TrimSpace(string(out)))
	}
	return program, nil
}

// service is a running service process. stop ends it.
type service struct {
	cmd     *exec.Cmd
	url     string // of the RPCs
	metrics string // URL
	log     *os.File
	ended   chan struct{}
	err     error // of the process; after ended
}

var announced = regexp.MustCompile(`RPCs +(http://\S+)`)

// startService starts the program on a database, and returns when it serves.
func startService(ctx context.Context, program, mode, logPath string, db database.PostgresConfig) (*service, error) {
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("log of the service: %w", err)
	}
	s := &service{metrics: "http://" + metrics + "/metrics", log: log, ended: make(chan struct{})}
	s.cmd = exec.Command(program,
		"--server.address=127.0.0.1:0", "--server.metricsAddress="+metrics, "--logger.level=warn", "--logger.format=text",
		"--database.postgres.host="+db.Host, "--database.postgres.port="+strconv.Itoa(db.Port), "--database.postgres.dbname="+db.DbName,
		"--database.postgres.username="+db.User, "--database.postgres.password="+db.Password, "--database.postgres.options="+db.ExtraOptions,
		"--runs.notify.mode="+mode)
	s.cmd.Env = environment()
	s.cmd.Stderr = log
	s.cmd.SysProcAttr = attributes()
	out, err := s.cmd.StdoutPipe()
	ready := make(chan string, 1)
	if err == nil {
		started := make(chan error)
		go s.run(out, started, ready)
		err = <-started
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the service: %w", err), log.Close())
	}
	if err := s.awaitReady(ctx, ready); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// run starts the process, and reads what it says until it ends.
func (s *service) run(out io.Reader, started chan<- error, ready chan<- string) {
	// Where a process ends with its parent, it ends with the parent's thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(s.ended)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := announced.FindStringSubmatch(lines.Text()); found != nil {
			select {
			case ready <- found[1]:
			default:
			}
		}
	}
	_, _ = io.Copy(io.Discard, out) // of a line that is too long
	s.err = s.cmd.Wait()
}

func (s *service) awaitReady(ctx context.Context, ready <-chan string) error {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case s.url = <-ready:
		return nil
	case <-s.ended:
		return fmt.Errorf("the service ended while it started: %w%s", s.err, s.lastWords())
	case <-timer.C:
		return fmt.Errorf("the service was not ready within %v%s", startTimeout, s.lastWords())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the service as an operator does and, when it takes too long, by force. That it had ended before is an error.
func (s *service) stop() error {
	defer func() { _ = s.log.Close() }()
	select {
	case <-s.ended:
		return fmt.Errorf("the service had ended by itself: %v%s", s.err, s.lastWords())
	default:
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-s.ended:
		return nil
	case <-timer.C:
		_ = s.cmd.Process.Kill()
		<-s.ended
		return fmt.Errorf("the service did not stop within %v%s", stopTimeout, s.lastWords())
	}
}

// lastWords is the end of the service's log, to be put behind an error.
func (s *service) lastWords() string {
	content, _ := os.ReadFile(s.log.Name())
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	lines = lines[max(0, len(lines)-lastLines):]
	if len(lines[0]) == 0 {
		return ""
	}
	return "; its log ends in: " + string(bytes.Join(lines, []byte(" | ")))
}

// environment is ours without the variables that configure a service.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FLYTE_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
