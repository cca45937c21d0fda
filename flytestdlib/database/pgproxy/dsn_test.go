package pgproxy_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/flytestdlib/database/pgproxy"
)

func TestDSNLeadsThroughTheProxy(t *testing.T) {
	p, err := pgproxy.Start("127.0.0.1:1", pgproxy.Options{})
	require.NoError(t, err)
	defer p.Close()
	host, port, err := net.SplitHostPort(p.Addr())
	require.NoError(t, err)
	for _, orig := range []string{
		"postgres://me:s%2Fcret@db.example:6432/flyte?sslmode=require&application_name=svc",
		"postgresql://me:s%2Fcret@/flyte?host=/tmp&port=7&application_name=svc",
		"host=db.example port=6432 user=me password='s/cret' dbname=flyte application_name=svc sslmode=require",
		"host=a,b port=1,2 user=me password=s/cret dbname=flyte application_name=svc",
	} {
		cfg, err := pgx.ParseConfig(p.DSN(orig))
		require.NoError(t, err, orig)
		assert.Equal(t, host, cfg.Host, orig)
		assert.Equal(t, port, strconv.Itoa(int(cfg.Port)), orig)
		assert.Equal(t, "me", cfg.User)
		assert.Equal(t, "s/cret", cfg.Password)
		assert.Equal(t, "flyte", cfg.Database)
		assert.Equal(t, "svc", cfg.RuntimeParams["application_name"])
		assert.Nil(t, cfg.TLSConfig, orig)
		assert.Empty(t, cfg.Fallbacks, orig)
	}
	assert.Equal(t, "postgres://%zz", p.DSN("postgres://%zz"))
}
