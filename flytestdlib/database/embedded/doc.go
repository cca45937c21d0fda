//go:build unix

// Package embedded runs a PostgreSQL server as a child of this process, over server programs that the machine has.
//
// What it promises: the server listens on 127.0.0.1 only, wants a password, keeps its data between starts, comes up again after
// whatever happened to its former owner, and is gone when this process is gone, even by SIGKILL.
//
//	folder locked → left-overs stopped → data made if there is none → server started → answers
package embedded
