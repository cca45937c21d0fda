package config

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flyteorg/flyte/v2/flytestdlib/config"
	"github.com/flyteorg/flyte/v2/flytestdlib/logger"
	"github.com/flyteorg/flyte/v2/runs/repository/impl"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestNothingNeedsToBeSet(t *testing.T) {
	cfg, err := Load(nil, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, Default(), cfg)
	assert.Equal(t, "127.0.0.1:8090", cfg.Server.Address, "open to this machine only")
	assert.True(t, cfg.Database.UsesEmbedded())
}

func TestASettingOfEachSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
server:
  address: 0.0.0.0:8090
  drainTimeout: 20s
logger: {level: debug, format: json}
database:
  maxOpenConnections: 50
  startTimeout: 1m
  postgres:
    host: db.example
    port: 5433
    dbname: runs
    username: flyte
    passwordPath: /etc/flyte/password
    options: sslmode=verify-full
runs:
  requestTimeout: 5s
  notify: {mode: "off"}
`), 0o600))

	cfg, err := Load([]string{"--config", file, "--database.maxIdleConnections=5"}, []string{"FLYTE_LOGGER_LEVEL=warn"}, nil)
	require.NoError(t, err)
	assert.Equal(t, "0.0.0.0:8090", cfg.Server.Address)
	assert.Equal(t, 20*time.Second, cfg.Server.DrainTimeout)
	assert.Equal(t, logger.Config{Level: logger.LevelWarn, Format: logger.FormatJSON}, cfg.Logger)
	assert.Equal(t, 50, cfg.Database.MaxOpenConnections)
	assert.Equal(t, 5, cfg.Database.MaxIdleConnections)
	assert.Equal(t, time.Minute, cfg.Database.StartTimeout)
	assert.False(t, cfg.Database.UsesEmbedded())
	assert.Equal(t, "flyte", cfg.Database.Postgres.User)
	assert.Equal(t, 5*time.Second, cfg.Runs.Service.RequestTimeout)
	assert.Equal(t, impl.NotifyModeOff, cfg.Runs.Notify.Mode)
}

func TestBoundsAreNamedWithTheSource(t *testing.T) {
	const embedded, given = "", "--database.postgres.host=db"
	for _, c := range []struct{ host, flag, want string }{
		{embedded, "--server.address=here", `server.address: "here" is not host:port`},
		{embedded, "--logger.level=loud", `logger.level: "loud" is none of debug, info, warn, error`},
		{embedded, "--runs.maxRequestBytes=1", `runs.maxRequestBytes: 1 is not within 1024 to 1073741824`},
		{embedded, "--runs.notify.listenDSN=postgres://u:s3cret@h:x/d", `runs.notify.listenDSN: not a connection string: invalid port`},
		{embedded, "--runs.notify.pumpDSN=host=h password = s3cret port=x", `runs.notify.pumpDSN: not a connection string: invalid port`},
		{embedded, "--runs.notify.mode=telepathy", `runs.notify.mode: "telepathy" is none of batched, serial, off`},
		{embedded, "--runs.notify.dialTimeout=0s", `runs.notify.dialTimeout: 0s is not above 0`},
		{embedded, "--runs.notify.execTimeout=-1s", `runs.notify.execTimeout: -1s is not above 0`},
		{embedded, "--runs.notify.catchUpInterval=0s", `runs.notify.catchUpInterval: 0s is not above 0`},
		{embedded, "--runs.notify.pingTimeout=-1s", `runs.notify.pingTimeout: -1s is not above 0`},
		{embedded, "--runs.notify.backlogPayloads=-1", `runs.notify.backlogPayloads: -1 is not above 0`},
		{embedded, "--database.maxOpenConnections=0", `database.maxOpenConnections: 0 is not within 1 to 262143`},
		{embedded, "--database.startTimeout=0s", `database.startTimeout: 0s is not above 0`},
		{embedded, "--database.embedded.port=65536", `database.embedded.port: 65536 is not within 0 to 65535`},
		{embedded, "--database.embedded.version=9", `database.embedded.version: 9 is neither 0 nor within 14 to 18`},
		{embedded, "--database.postgres.dbname=", `database.postgres.dbname: "" is not 1 to 63 bytes long`},
		{embedded, "--database.postgres.port=5433", `database.postgres.port: has no effect without postgres.host`},
		{embedded, "--database.postgres.username=me", `database.postgres.username: has no effect without postgres.host`},
		{embedded, "--database.postgres.password=x", `database.postgres.password: has no effect without postgres.host`},
		{embedded, "--database.postgres.passwordPath=x", `database.postgres.passwordPath: has no effect without postgres.host`},
		{embedded, "--database.postgres.options=x=y", `database.postgres.options: has no effect without postgres.host`},
		{given, "--database.postgres.port=0", `database.postgres.port: 0 is not within 1 to 65535`},
		{given, "--database.postgres.username=", `database.postgres.username: "" is not 1 to 63 bytes long`},
		{given, "--database.postgres.readReplicaHost=replica", `database.postgres.readReplicaHost: must be empty`},
	} {
		args := []string{c.flag}
		if c.host != embedded {
			args = append(args, c.host)
		}
		_, err := Load(args, nil, nil)
		require.ErrorContains(t, err, "configuration: "+c.want, c.flag)
		assert.Contains(t, err.Error(), "(flag --", c.flag)
	}
}

func TestHelpListsTheKeys(t *testing.T) {
	var help bytes.Buffer
	_, err := Load([]string{"--help"}, nil, &help)
	require.ErrorIs(t, err, config.ErrHelp)
	for _, key := range []string{
		"--server.address string  (default: 127.0.0.1:8090)", "--server.metricsAddress string  (default: 127.0.0.1:10254)",
		"--logger.format text|json  (default: text)", "--database.maxOpenConnections int  (default: 100)",
		"--database.postgres.host string  (default: none)", "--database.postgres.password string  (default: none)",
		"--database.embedded.dir string", "--runs.maxRequestBytes int", "--runs.notify.mode ",
	} {
		assert.Contains(t, help.String(), "  "+key)
	}
}
