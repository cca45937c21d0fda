// Package bench compares the service's notify modes under one and the same load.
//
//	load ──► service ──► proxy that delays and counts ──► PostgreSQL ──► (proxy that delays ──► pg_receivewal)
//
// Each trial has all of it to itself and fresh: an empty database, a service process, the proxies. A round is one trial of each mode,
// in random order; ratios are taken within a round, so that what slows the machine down for a while hits both sides alike or shows as
// spread. The last part, in parentheses, is there when commits are to take longer than this machine's storage lets them.
//
// A trial is void when a call failed, when the tables do not hold what the answers promised, or when a watcher did not see the end
// of what it watches. The mode off tells nobody anything: there it is void when somebody was told.
package bench
