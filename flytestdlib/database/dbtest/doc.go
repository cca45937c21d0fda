//go:build unix

// Package dbtest gives tests a real PostgreSQL.
//
// Most tests want a database of their own and nothing else: DSN and Config create one on a server that all tests share and drop it when
// the test ends. That server is whatever listens on localhost:15432 and takes postgres/postgres; without one, the test process starts an
// embedded server of its own, once. Tests that stop, freeze or restart a server take a private one from StartServer.
//
// A package that uses dbtest has this TestMain, which stops the process' server and reports leaked goroutines:
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
package dbtest
