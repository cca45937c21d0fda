package pgproxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

const (
	protocol3     = 3 << 16
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssEncRequest = 80877104

	maxStartup = 10_000 // bytes; PostgreSQL's own limit
)

// startup is what a connection begins with.
type startup struct {
	raw    []byte // as sent, length included
	app    string // application_name, "" when there is none
	cancel bool   // a cancel request: no session follows
}

// readStartup reads the start-up message. A wish for encryption is answered with "no", as by a server without TLS, unless
// silent says that nothing may be answered.
func readStartup(client net.Conn, silent func() bool) (startup, error) {
	for {
		raw, err := readStartupPacket(client)
		if err != nil {
			return startup{}, err
		}
		switch code := binary.BigEndian.Uint32(raw[4:]); {
		case code == sslRequest || code == gssEncRequest:
			if silent() {
				continue
			}
			if _, err := client.Write([]byte{'N'}); err != nil {
				return startup{}, err
			}
		case code == cancelRequest:
			return startup{raw: raw, cancel: true}, nil
		case code>>16 == protocol3>>16:
			return startup{raw: raw, app: parameter(raw[8:], "application_name")}, nil
		default:
			return startup{}, fmt.Errorf("pgproxy: protocol %d.%d is not known", code>>16, code&0xffff)
		}
	}
}

func readStartupPacket(client io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(client, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size < 8 || size > maxStartup {
		return nil, fmt.Errorf("pgproxy: start-up message of %d bytes", size)
	}
	raw := make([]byte, size)
	copy(raw, head)
	_, err := io.ReadFull(client, raw[4:])
	return raw, err
}

// parameter finds a value in the name/value list of a start-up message.
func parameter(list []byte, name string) string {
	fields := bytes.Split(list, []byte{0})
	for i := 0; i+1 < len(fields); i += 2 {
		if string(fields[i]) == name {
			return string(fields[i+1])
		}
	}
	return ""
}
