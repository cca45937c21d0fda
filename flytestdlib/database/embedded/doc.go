//go:build unix

// Package embedded runs a PostgreSQL server as a child of this process, over server programs that the machine has and, where it has none,
// over downloaded ones.
//
// What it promises: the server listens on 127.0.0.1 only and wants a password; its data stays between starts; it comes up again
// whatever happened to its former owner; and it is gone when this process is gone, even by SIGKILL.
//
//	folder locked → programs chosen → left-overs ended → data made if there is none → server started → answers
//	                                                                                                     │
//	folder free   ← processes gone ← by force ← immediate ← fast ← Stop, or the death of this process ───┘
//
// A server that outlived its owner would keep the port and the data from the next one, so whoever starts next ends it first, after
// checking by the folder it works in that it is ours. What somebody else runs is never touched.
//
// PostgreSQL refuses to run as root. Started by root, everything of PostgreSQL runs under an unprivileged account, which owns the data.
//
// The library embedded-postgres serves for the download only. It starts servers through pg_ctl, as daemons and under our own account,
// which leaves no way to drop root's privileges, to have the server end with us, or to see it end; and it deletes data of a version
// that it does not expect.
//
// Built with the tag portable, a Linux program does what other systems do where /proc and the kernel's death signal are missing; that
// is how those ways are tested.
package embedded
