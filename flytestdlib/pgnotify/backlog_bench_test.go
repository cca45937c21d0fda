package pgnotify

import (
	"fmt"
	"testing"
)

// What one payload costs the distributor when everybody has room: the price of being able to keep it. The broadcaster's own share is
// measured beside it.
func BenchmarkBacklogFastPath(b *testing.B) {
	for _, subscribers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("subscribers=%d", subscribers), func(b *testing.B) {
			broadcaster := newBroadcaster()
			backlog, err := NewBacklog(BacklogConfig{ReplayWindow: 1}, broadcaster.subscribers())
			if err != nil {
				b.Fatal(err)
			}
			channels := make([]chan string, subscribers)
			for i := range channels {
				channels[i], _ = broadcaster.subscribe(broadcaster.things)
			}
			payloads := make([]string, 1024)
			for i := range payloads {
				payloads[i] = fmt.Sprintf("project/domain/run/action-%d", i)
			}
			lane := backlog.byName[thingChannel]
			lane.look(nil) // meets them
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				lane.log.add(payloads[i%len(payloads)], backlog.now)
				next, _ := lane.log.take(backlog.now)
				lane.look(&next)
				lane.handedOn(next)
				i++
			}
			if lane.behind > 0 {
				b.Fatal("not the fast path")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i)/float64(subscribers), "ns/payload·subscriber")
		})
	}
}

// What the broadcaster does for each payload, subscribers included that take it at once.
func BenchmarkBroadcast(b *testing.B) {
	for _, subscribers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("subscribers=%d", subscribers), func(b *testing.B) {
			broadcaster := newBroadcaster()
			channels := make([]chan string, subscribers)
			for i := range channels {
				channels[i], _ = broadcaster.subscribe(broadcaster.things)
			}
			i := 0
			for b.Loop() {
				broadcaster.offer(broadcaster.things, "project/domain/run/action")
				for _, ch := range channels {
					<-ch
				}
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i)/float64(subscribers), "ns/payload·subscriber")
		})
	}
}

// What it costs to take a payload off the socket into the log.
func BenchmarkBacklogArrive(b *testing.B) {
	broadcaster := newBroadcaster()
	backlog, err := NewBacklog(BacklogConfig{}, broadcaster.subscribers())
	if err != nil {
		b.Fatal(err)
	}
	payloads := make([]string, 1<<16)
	for i := range payloads {
		payloads[i] = fmt.Sprintf("project/domain/run/action-%d", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		backlog.arrive(thingChannel, payloads[i%len(payloads)])
		i++
	}
}
