package pgnotify

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// What an Add costs a writer. "present" is the usual case under load: the payload waits already.
func BenchmarkPendingAdd(b *testing.B) {
	b.Run("present", func(b *testing.B) {
		p := NewPending("c")
		keys := numbered(1000)
		for _, k := range keys {
			p.Add(k)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			p.Add(keys[i%len(keys)])
		}
	})
	b.Run("absent", func(b *testing.B) {
		keys := numbered(100_000)
		p := NewPending("c")
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%len(keys) == 0 {
				p.Settle(Outcome{Batch: p.Take(0)})
			}
			p.Add(keys[i%len(keys)])
		}
	})
	b.Run("present, 100 writers", func(b *testing.B) { benchmarkWriters(b, nil) })
	b.Run("100 writers, nothing can be sent", func(b *testing.B) {
		benchmarkWriters(b, func(pump *Pump) {
			for channel := range pump.Due() { // as with the database stopped: each attempt fails, the channel rests
				batch := pump.Take(channel)
				out := Outcome{Batch: batch}
				out.fail(batch.Entries, errors.New("connection refused"))
				pump.Settle(out)
			}
		})
	})
}

// benchmarkWriters has 100 goroutines add, each to its own 100 keys, and reports beside the mean what 99 % of the adds stay below, timed one
// by one on a sample.
func benchmarkWriters(b *testing.B, consume func(*Pump)) {
	const writers, each, sampled = 100, 100, 64
	pump, err := NewPump("c")
	if err != nil {
		b.Fatal(err)
	}
	silence(b)
	var loop sync.WaitGroup
	if consume != nil {
		loop.Go(func() { consume(pump) })
	}
	keys := make([][]string, writers)
	samples := make([][]time.Duration, writers)
	for w := range keys {
		keys[w] = prefixed(strconv.Itoa(w), each)
		for _, k := range keys[w] {
			pump.Add("c", k)
		}
	}

	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for w := range writers {
		wg.Go(func() {
			for i := range b.N/writers + 1 {
				if i%sampled != 0 {
					pump.Add("c", keys[w][i%each])
					continue
				}
				start := time.Now()
				pump.Add("c", keys[w][i%each])
				samples[w] = append(samples[w], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(samples...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100]), "ns-p99")
	pump.stop(errors.New("benchmark is over"))
	loop.Wait()
}

// silence keeps log lines out of the figures, in both senses.
func silence(b *testing.B) {
	b.Helper()
	if err := logger.Setup(logger.DefaultConfig(), io.Discard); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = logger.Setup(logger.DefaultConfig(), os.Stderr) })
}

// A whole cycle without a network: add, take, settle.
func BenchmarkPendingCycle(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := NewPending("c")
			keys := numbered(n)
			rand.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			b.ReportAllocs()
			for b.Loop() {
				for _, k := range keys {
					p.Add(k)
				}
				p.Settle(Outcome{Batch: p.Take(0)})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/payload")
		})
	}
}
