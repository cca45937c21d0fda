//go:build unix

package embedded

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// PortTakenError says that somebody else listens on the port that the server was to have.
type PortTakenError struct {
	Port int
	PID  int    // of the holder; 0 when it cannot be known
	Name string // of the holder's program; empty when it cannot be known
}

func (e *PortTakenError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d (%s)", e.PID, e.Name)
	}
	return fmt.Sprintf("port %d on 127.0.0.1 is taken by %s", e.Port, holder)
}

// choosePort returns port if nobody listens there, and a free one for 0.
func choosePort(port int) (int, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		taken := &PortTakenError{Port: port}
		taken.PID, taken.Name = portHolder(port)
		return 0, taken
	}
	if err != nil {
		return 0, fmt.Errorf("port %d on 127.0.0.1: %w", port, err)
	}
	chosen := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("port %d on 127.0.0.1: %w", chosen, err)
	}
	return chosen, nil
}
