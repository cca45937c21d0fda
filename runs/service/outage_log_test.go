package service

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneLineStandsForAnOutage(t *testing.T) {
	log := logged(t)
	var o outageLog
	began := time.Now()
	for i := range 1000 {
		o.say(t.Context(), "/a", errors.New("connection refused"), began.Add(time.Duration(i)*outageLinePause/1000))
	}
	require.Equal(t, 1, strings.Count(log(), "connection refused"))
	o.say(t.Context(), "/late", errors.New("connection refused"), began.Add(outageLinePause))
	require.Equal(t, 2, strings.Count(log(), "connection refused"))
	require.Contains(t, log(), "/late: connection refused (999 more requests")
}
