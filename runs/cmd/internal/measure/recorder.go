package measure

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// RPC is what was measured of one kind of call.
type RPC struct {
	Name string `json:"name"`
	// Calls is the number of answered calls, the failed ones included.
	Calls int64 `json:"calls"`
	// Errors is the number of failed calls, whether the call failed or its answer reports a failure.
	Errors int64 `json:"errors"`
	// Rate of successful calls per second, over the time that the load took.
	Rate float64 `json:"perSecond"`
	// Latency of the successful calls.
	Latency Summary `json:"latency"`
}

// Failure is one kind of failure, with the first message of its kind.
type Failure struct {
	RPC    string `json:"rpc"`
	Code   string `json:"code"`
	Count  int64  `json:"count"`
	Sample string `json:"sample"`
}

// Recorder collects calls. It is safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	rpcs     map[string]*rpc
	order    []string // of first use
	failures map[[2]string]*Failure
	calls    int64
	errors   int64
}

type rpc struct {
	latency       *Histogram
	calls, errors int64
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{rpcs: map[string]*rpc{}, failures: map[[2]string]*Failure{}}
}

// Succeeded notes a successful call.
func (r *Recorder) Succeeded(name string, took time.Duration) {
	r.mu.Lock()
	entry := r.entry(name)
	entry.calls++
	r.calls++
	r.mu.Unlock()
	entry.latency.Record(took)
}

// Failed notes a failed call, or a stream that ended too early.
func (r *Recorder) Failed(name, code, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := r.entry(name)
	entry.calls++
	entry.errors++
	r.calls++
	r.errors++
	key := [2]string{name, code}
	failure := r.failures[key]
	if failure == nil {
		failure = &Failure{RPC: name, Code: code, Sample: message}
		r.failures[key] = failure
	}
	failure.Count++
}

func (r *Recorder) entry(name string) *rpc {
	entry := r.rpcs[name]
	if entry == nil {
		entry = &rpc{latency: NewHistogram()}
		r.rpcs[name] = entry
		r.order = append(r.order, name)
	}
	return entry
}

// Totals is the number of calls so far, and of the failed ones among them.
func (r *Recorder) Totals() (calls, errors int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls, r.errors
}

// RPCs returns the figures in the order of first use, with rates over the given time.
func (r *Recorder) RPCs(elapsed time.Duration) []RPC {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]RPC, 0, len(r.order))
	for _, name := range r.order {
		entry := r.rpcs[name]
		one := RPC{Name: name, Calls: entry.calls, Errors: entry.errors, Latency: entry.latency.Summary()}
		if elapsed > 0 {
			one.Rate = float64(entry.calls-entry.errors) / elapsed.Seconds()
		}
		all = append(all, one)
	}
	return all
}

// Failures returns the kinds of failures, the most frequent first.
func (r *Recorder) Failures() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Failure, 0, len(r.failures))
	for _, failure := range r.failures {
		all = append(all, *failure)
	}
	slices.SortFunc(all, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.RPC, b.RPC), cmp.Compare(a.Code, b.Code))
	})
	return all
}
