package interfaces

// NotifyStatus is how announcing and hearing of changes goes at one moment, for people and for checks. Counts are since the start of the
// process.
type NotifyStatus struct {
	// Mode is how changes are announced: batched, serial or off.
	Mode string `json:"mode"`
	// Channels and Sender are those of mode batched.
	Channels []NotifyChannelStatus `json:"channels,omitempty"`
	Sender   *NotifySenderStatus   `json:"sender,omitempty"`
	Listener NotifyListenerStatus  `json:"listener"`
}

// NotifyChannelStatus is one channel of the pump.
type NotifyChannelStatus struct {
	Channel          string  `json:"channel"`
	Pending          int     `json:"pending"`          // keys that wait, those in flight included
	InFlight         int     `json:"inFlight"`         // of these, in a statement without an answer yet
	OldestAgeSeconds float64 `json:"oldestAgeSeconds"` // of the key that waits longest

	// Added = Coalesced + Delivered + Rejected + Pending.
	Added         uint64  `json:"added"`
	Coalesced     uint64  `json:"coalesced"` // folded into a key that waited already
	Delivered     uint64  `json:"delivered"`
	Rejected      uint64  `json:"rejected"`      // PostgreSQL will never take them
	Retried       uint64  `json:"retried"`       // came back undelivered
	WaitedSeconds float64 `json:"waitedSeconds"` // summed over what was delivered

	// Failures is how many attempts to send have failed in a row; the fields below are set while it is not 0.
	Failures          int     `json:"failures"`
	FailingForSeconds float64 `json:"failingForSeconds,omitempty"`
	LastError         string  `json:"lastError,omitempty"`
	NextTryInSeconds  float64 `json:"nextTryInSeconds,omitempty"`
}

// NotifySenderStatus is the pump's connection.
type NotifySenderStatus struct {
	BackendPID uint32 `json:"backendPid"` // of the connection made last, 0 before the first
	Connects   uint64 `json:"connects"`
	Statements uint64 `json:"statements"` // confirmed
}

// NotifyListenerStatus is the listener's connection and what it heard.
type NotifyListenerStatus struct {
	BackendPID uint32 `json:"backendPid"` // 0: not connected
	// Error is why not every change reaches the watchers now; empty when every one does.
	Error      string  `json:"error,omitempty"`
	Connects   uint64  `json:"connects"`
	Received   uint64  `json:"received"`
	LagSeconds float64 `json:"lagSeconds"` // from the sender's statement to here, of the last one heard

	CatchUps        uint64 `json:"catchUps"`
	CatchUpFailures uint64 `json:"catchUpFailures"`
	CatchUpRows     uint64 `json:"catchUpRows"`      // changes found
	CatchUpMissed   uint64 `json:"catchUpAnnounced"` // of these, not known to have been heard of

	Subscribers int    `json:"subscribers"`
	Behind      int    `json:"behind"`      // of these, with less room than there is to tell them
	Waiting     int    `json:"waiting"`     // payloads not yet handed on
	Kept        int    `json:"kept"`        // payloads kept for subscribers that are new or behind
	KeptBytes   int    `json:"keptBytes"`   // that they take
	Lost        uint64 `json:"lost"`        // payloads dropped before anybody got them
	FellBehind  uint64 `json:"fellBehind"`  // times that a subscriber had no room
	Missed      uint64 `json:"missedByOne"` // times that a subscriber missed what was dropped
}
