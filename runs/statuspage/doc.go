// Package statuspage is GET / of the service: a page for a second screen during a load test. It shows runs and actions by phase, live
// from the repository's watches, and how the pump and the listener are doing.
//
//	WatchAllRunUpdates ─────┐
//	WatchAllActionUpdates ──┤   board ── a frame twice a second ──▶ events ──▶ browsers
//	(of the runs followed)  │     ▲
//	NotifyStatus ───────────┘     └ runs while somebody looks, once for everybody who does
//
// Nobody looking, it costs nothing. While somebody does, it costs the database what a watcher of each followed run costs: one
// read for each change of one of its actions, however many browsers there are.
//
// The page is three files of its own and asks for no other: its policy lets the browser load scripts, styles and data from the
// service alone. What comes from the database is put on the page as text, never as markup.
package statuspage
