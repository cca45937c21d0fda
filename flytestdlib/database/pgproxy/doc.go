// Package pgproxy puts a network of one's choice between a client and PostgreSQL: a TCP proxy that delays, swallows, cuts and
// refuses, that can be pointed at another server behind the same address, and that understands enough of the protocol (version 3)
// to say what crossed it.
//
//	client ──► client tap ──► delay ──► PostgreSQL
//	client ◄── server tap ◄── delay ◄── PostgreSQL
//
// The links and the delay stage are those of github.com/Shopify/toxiproxy/v2, used as a library. Both taps sit at the client's end
// of the wire, so that the figures (Stats) are what the client saw: a round trip lasts from the message that asks to the answer
// that arrived, the delay of both directions included.
//
// What is counted is counted per application_name, as given in the start-up message; a later SET application_name is not followed.
//
// # Faults
//
//   - SetRTT, SetJitter: delay, half in each direction. It is a delay, not a limit: bytes that enter together leave together.
//   - Blackhole: bytes and closings are swallowed, nothing is told to either side. When it ends, the connections that lost
//     something are cut: what they would deliver afterwards is no longer the protocol.
//   - CutAll, CutMatching: connections are reset.
//   - Refuse: new connections are refused, existing ones go on.
//   - SetUpstream: new connections go elsewhere, existing ones go on; with CutAll it is a failover behind one address.
//   - HoldBack, CutBeforeReply: faults at one statement.
//
// # Limits
//
// No TLS passes the proxy: a client that asks for it is told that there is none, and DSN switches it off. The TCP handshake is
// not delayed: opening a connection costs the round trips of PostgreSQL's start-up, but one less than over a real network.
//
// A round trip takes some 40 µs more than straight to the server (BenchmarkRoundTrip), whatever the delay, and a connection eight
// goroutines.
package pgproxy
