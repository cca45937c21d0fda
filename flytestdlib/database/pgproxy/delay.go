package pgproxy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

const delayType = "precise_latency"

// tooShort is a wait that costs more than it is worth.
const tooShort = 10 * time.Microsecond

// delay is the stage of a toxiproxy link that lets bytes rest for a while. toxiproxy's own latency stage does the same in whole
// milliseconds and with Go's timers, which in an idle process are late by up to another; between a service and its database one
// millisecond more is the difference that we measure. Its settings change under traffic without pausing the links.
//
// Each chunk waits until its own time of arrival plus the delay: chunks rest next to each other, not one after the other.
type delay struct {
	base, jitter atomic.Int64 // nanoseconds, this direction only
}

func init() { toxics.Register(delayType, new(delay)) }

// addDelay puts the stage in one direction of all links to come.
func addDelay(links *toxiproxy.Proxy, direction string) (*delay, error) {
	wrapper, err := links.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type":%q,"stream":%q}`, delayType, direction)))
	if err != nil {
		return nil, fmt.Errorf("pgproxy: add the %s delay: %w", direction, err)
	}
	return wrapper.Toxic.(*delay), nil
}

// GetBufferSize is the number of chunks (reads of up to 32 KiB) that can rest in one direction of one connection; beyond it the
// sender is throttled.
func (d *delay) GetBufferSize() int { return 4096 }

// Pipe passes chunks on until the link ends.
func (d *delay) Pipe(stub *toxics.ToxicStub) {
	var s sleeper
	defer s.close()
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if wait := d.pick() - time.Since(chunk.Timestamp); wait > tooShort {
				s.sleep(wait)
			}
			stub.Output <- chunk
		}
	}
}

func (d *delay) pick() time.Duration {
	wait := d.base.Load()
	if jitter := d.jitter.Load(); jitter > 0 {
		wait += rand.Int64N(jitter + 1)
	}
	return time.Duration(wait)
}
