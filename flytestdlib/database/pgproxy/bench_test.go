package pgproxy_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/dbtest"
	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

// BenchmarkRoundTrip compares a SELECT 1 straight to the server with one through the proxy, both without delay: the difference is
// what the proxy costs.
func BenchmarkRoundTrip(b *testing.B) {
	dsn := dbtest.DSN(b)
	p := startFor(b, dsn, pgproxy.Options{})
	for name, dsn := range map[string]string{"direct": dsn, "proxied": p.DSN(dsn)} {
		b.Run(name, func(b *testing.B) {
			conn, err := pgx.Connect(b.Context(), dsn)
			require.NoError(b, err)
			defer func() { _ = conn.Close(b.Context()) }()
			for b.Loop() {
				if err := ping(b.Context(), conn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
