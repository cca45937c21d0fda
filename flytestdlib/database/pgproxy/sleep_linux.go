package pgproxy

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper sleeps with the precision of the kernel's timers, some 50 µs, without occupying a thread: a timerfd read through the
// runtime's poller. The runtime's own timers round to whole milliseconds when the process is idle. The zero value is ready; it
// belongs to one goroutine.
type sleeper struct {
	timer *os.File
	fd    int
	buf   [8]byte
}

func (s *sleeper) sleep(d time.Duration) {
	if s.timer == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			time.Sleep(d)
			return
		}
		s.fd = fd
		s.timer = os.NewFile(uintptr(fd), "timerfd")
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(s.fd, 0, &spec, nil); err != nil {
		time.Sleep(d)
		return
	}
	if _, err := s.timer.Read(s.buf[:]); err != nil {
		time.Sleep(d)
	}
}

func (s *sleeper) close() {
	if s.timer != nil {
		_ = s.timer.Close()
	}
}
