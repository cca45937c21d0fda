package pgnotify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLineBudgetCountsWhatItDoesNotAllow(t *testing.T) {
	var b lineBudget
	now := time.Now()
	for range lineBurst {
		write, untold := b.spend(now)
		require.True(t, write)
		require.Zero(t, untold)
	}
	for range 5 {
		write, _ := b.spend(now)
		require.False(t, write)
	}
	write, untold := b.spend(now.Add(linePeace))
	require.True(t, write)
	require.Equal(t, 5, untold)
	write, _ = b.spend(now.Add(linePeace))
	require.False(t, write)

	later := now.Add(time.Hour)
	for range lineBurst {
		write, _ := b.spend(later)
		require.True(t, write, "the budget fills up again")
	}
	require.Equal(t, " (and 3 more since the last line)", andUntold(3))
	require.Empty(t, andUntold(0))
}
