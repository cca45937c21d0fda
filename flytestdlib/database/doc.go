// Package database holds what a service needs to reach its PostgreSQL database: configuration, connection string, connection pool, and
// migrations that are safe when several replicas start together.
//
// It knows no tables. Passwords never appear in its errors and log lines.
package database
