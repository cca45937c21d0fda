package pgnotify

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSessionNamesItselfByItsRole(t *testing.T) {
	for service, want := range map[string]string{
		"":                       "notify-pump",
		"runs":                   "runs notify-pump",
		strings.Repeat("x", 51):  strings.Repeat("x", 51) + " notify-pump",
		strings.Repeat("x", 100): strings.Repeat("x", 51) + " notify-pump",
		strings.Repeat("é", 40):  strings.Repeat("é", 25) + " notify-pump", // not cut inside a character
	} {
		got := applicationName(service, senderRole)
		require.Equal(t, want, got)
		require.LessOrEqual(t, len(got), maxIdentifierBytes)
	}

	cfg, err := sessionConfig("host=db application_name=runs", listenerRole, 3*time.Second)
	require.NoError(t, err)
	require.Equal(t, "runs notify-listener", cfg.RuntimeParams["application_name"])
	require.Equal(t, 3*time.Second, cfg.ConnectTimeout)
}

func TestSessionLooksForAServerThatTakesWritesWhenThereAreSeveral(t *testing.T) {
	one, err := sessionConfig("host=db1 sslmode=prefer", senderRole, time.Second)
	require.NoError(t, err)
	require.Nil(t, one.ValidateConnect)
	several, err := sessionConfig("host=db1,db2 sslmode=prefer", senderRole, time.Second)
	require.NoError(t, err)
	require.NotNil(t, several.ValidateConnect)
}

func TestSessionErrorNamesTheRoleAndNoPassword(t *testing.T) {
	_, err := sessionConfig("host=db password=hunter2 port=none", senderRole, time.Second)
	require.ErrorContains(t, err, "notify-pump")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestChannelNamesAreChecked(t *testing.T) {
	require.NoError(t, checkChannel("a"))
	require.NoError(t, checkChannel(strings.Repeat("x", 63)))
	require.NoError(t, checkChannel(`We"ird ; -- name`))
	require.ErrorContains(t, checkChannel(""), "empty")
	require.ErrorContains(t, checkChannel(strings.Repeat("x", 64)), "64 bytes")
	require.ErrorContains(t, checkChannel(strings.Repeat("é", 32)), "64 bytes", "bytes, not characters")
	require.ErrorContains(t, checkChannel("a\x00"), "NUL")
	require.ErrorContains(t, checkChannel("a\xff"), "UTF-8")
}
