package pgnotify

// Notification tells that something was announced on a channel. It may stand for several equal ones, sent by different
// sessions, and for a change that was never announced at all but found by a catch-up; so it carries no sender.
type Notification struct {
	Channel string
	// Extra is the payload.
	Extra string
}
