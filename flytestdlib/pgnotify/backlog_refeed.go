package pgnotify

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
)

// refeed gives one subscriber, from a catch-up, what the log dropped before the subscriber had it. It reads a page when the one before
// has been sent, so a subscriber that is slow holds neither memory beyond a page nor the reading goroutine. Except for the
// reading it belongs to the distributor's goroutine.
type refeed struct {
	since time.Duration  // what to ask for: changes from when the first missing payload arrived
	again *time.Duration // the log dropped more meanwhile: when done, once more from here
	after string         // where the next page begins
	page  []string
	ended bool // page is the last one

	reading bool
	backoff backoff
	retryAt time.Duration

	channel string
	refeeds *refeeds
	lines   *lineBudget
}

// refeedPage is a page that was asked for, or why there is none.
type refeedPage struct {
	refeed  *refeed
	changes []Change
	next    string
	err     error
}

// refeedRequest asks for a page. It has copies of what the distributor may change.
type refeedRequest struct {
	refeed *refeed
	since  time.Duration
	after  string
}

// refeeds is how the distributor and the goroutine that reads pages talk.
type refeeds struct {
	requests chan refeedRequest
	fetched  chan refeedPage
	// onArrival is BacklogConfig.OnArrival.
	onArrival func(channel, payload string)
	// read reads one page of what changed since a payload that arrived then was sent; nil when there is no catch-up.
	read func(ctx context.Context, arrived time.Time, after string) ([]Change, string, error)
}

func newRefeeds() *refeeds {
	return &refeeds{requests: make(chan refeedRequest, 1), fetched: make(chan refeedPage), onArrival: func(string, string) {}}
}

// run reads the pages that are asked for, one at a time, until ctx ends.
func (r *refeeds) run(ctx context.Context, started time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case ask := <-r.requests:
			page := refeedPage{refeed: ask.refeed}
			page.changes, page.next, page.err = r.read(ctx, started.Add(ask.since), ask.after)
			select {
			case r.fetched <- page:
			case <-ctx.Done():
				return
			}
		}
	}
}

// startRefeed is called when the log has dropped, from s.since on, what s needed.
func (l *lane) startRefeed(s *subscriber) {
	l.backlog.stats.gaps.Add(1)
	if write, untold := l.gapLines.spend(time.Now()); write {
		instead := "a catch-up tells it what changed"
		if l.backlog.refeeds.read == nil {
			instead = "there is no catch-up, so it has missed them"
		}
		logger.Warnf(context.Background(), "a subscriber of channel %s is so far behind that notifications kept for it had to go; %s%s",
			l.channel, instead, andUntold(untold))
	}
	since := l.backlog.retold.reach(s.since)
	switch {
	case l.backlog.refeeds.read == nil:
	case s.refeed == nil:
		s.refeed = &refeed{since: since, backoff: newBackoff(), channel: l.channel, refeeds: l.backlog.refeeds, lines: &l.gapLines}
	case s.refeed.again == nil:
		s.refeed.again = &since
	default:
		*s.refeed.again = min(*s.refeed.again, since)
	}
}

// feed sends up to room payloads of the page, sees to the next page, and returns how many it sent.
func (r *refeed) feed(ch chan string, s *subscriber, room int, now time.Duration, fed *atomic.Uint64) (sent int) {
	for sent < room && len(r.page) > 0 {
		select {
		case ch <- r.page[0]:
			r.page = r.page[1:]
			sent++
			fed.Add(1)
		default:
			return room // the broadcaster has taken the place
		}
	}
	switch {
	case len(r.page) > 0 || r.reading || now < r.retryAt:
	case !r.ended:
		r.ask()
	case r.again != nil:
		r.since, r.again, r.after, r.ended = *r.again, nil, "", false
		r.ask()
	default:
		s.refeed = nil
	}
	return sent
}

// ask asks for the next page, at a later look if the reader is busy.
func (r *refeed) ask() {
	select {
	case r.refeeds.requests <- refeedRequest{refeed: r, since: r.since, after: r.after}:
		r.reading = true
	default:
	}
}

// accept takes in the page that was asked for.
func (r *refeed) accept(page refeedPage, now time.Duration) {
	r.reading = false
	if page.err != nil {
		wait := r.backoff.next()
		r.retryAt = now + wait
		if write, untold := r.lines.spend(time.Now()); write {
			logger.Warnf(context.Background(), "catch-up for a subscriber of channel %s that is far behind failed, next try in %s: %v%s",
				r.channel, wait.Round(time.Millisecond), page.err, andUntold(untold))
		}
		return
	}
	r.backoff.reset()
	r.after, r.ended = page.next, page.next == ""
	for _, c := range page.changes {
		if c.Channel == r.channel {
			r.refeeds.onArrival(c.Channel, c.Payload)
			r.page = append(r.page, c.Payload)
		}
	}
}
