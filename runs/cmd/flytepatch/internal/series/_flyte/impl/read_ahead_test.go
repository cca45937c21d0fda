package impl

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/runs/repository/models"
)

// startReadingAhead makes a repository whose watches read ahead, on a database of its own with n actions of one run; fetches counts the
// statements that read in common.
func startReadingAhead(t *testing.T, n int) (repo *readingAhead, fetches *atomic.Int64, exec func(statement string, args ...any)) {
	t.Helper()
	under, _, exec := startRepo(t, n)
	t.Cleanup(under.joint.close)
	fetches = &atomic.Int64{}
	fetch := under.joint.fetch
	under.joint.fetch = func(ctx context.Context, keys []rowKey) (map[rowKey]*models.Action, error) {
		fetches.Add(1)
		return fetch(ctx, keys)
	}
	return &readingAhead{under}, fetches, exec
}

func TestReadAhead_ABurstTakesAStatementForManyRows(t *testing.T) {
	const n = 2000
	repo, fetches, exec := startReadingAhead(t, n)
	watched := watchRun(t, repo)
	exec(finishActionsSQL)
	for i := range n {
		repo.notifyActionUpdate(context.Background(), notifyAction(i))
	}
	// The watcher stands at its first update, which nobody takes, until all have been heard of.
	require.Eventually(t, func() bool { return toBeRead(repo) > n-2*notifySubscriberSlots }, notifyPatience, 10*time.Millisecond)
	watched.read(t, n)
	assert.Positive(t, fetches.Load())
	// Each payload may be told twice, and a row that nobody holds any more is read again; one by one they would take n and more.
	assert.Less(t, fetches.Load(), int64(n/2))
}

// toBeRead is what the watchers have heard of and nobody has begun to read.
func toBeRead(repo *readingAhead) (total int) {
	repo.ahead.mu.RLock()
	defer repo.ahead.mu.RUnlock()
	for _, group := range repo.ahead.groups {
		for ahead := range group {
			ahead.mu.Lock()
			total += len(ahead.heard)
			ahead.mu.Unlock()
		}
	}
	return total
}

// What is read in common is what is read alone.
func TestReadAhead_GivesWhatGetRunAndGetActionGive(t *testing.T) {
	repo, fetches, exec := startReadingAhead(t, 3)
	exec(`UPDATE actions SET action_spec = 'a', action_details = 'b', detailed_info = 'c', run_spec = 'd'`)
	exec(`UPDATE actions SET detailed_info = convert_to(repeat('x', $1), 'UTF8') WHERE name = 'n2'`, jointRowBytes+1)

	for i, inCommon := range []bool{true, true, false} { // n2 is large
		alone, err := repo.GetAction(t.Context(), notifyAction(i))
		require.NoError(t, err)
		ctx, leave := repo.watching(t.Context(), aheadGroup{notifyChannelActions, notifyRunKey(notifyRun)})
		defer leave()
		assert.Equal(t, inCommon, readAheadFor(ctx, notifyChannelActions, notifyActionKey(notifyAction(i))) != nil)
		repo.ahead.note(notifyChannelActions, notifyActionKey(notifyAction(i))) // else what was just read would do
		before := fetches.Load()
		watched, err := repo.GetAction(ctx, notifyAction(i))
		require.NoError(t, err)
		assert.Equal(t, alone, watched)
		assert.Greater(t, fetches.Load(), before)
	}

	alone, err := repo.GetRun(t.Context(), notifyRun)
	require.NoError(t, err)
	ctx, leave := repo.watching(t.Context(), aheadGroup{channel: notifyChannelRuns})
	defer leave()
	require.NotNil(t, readAheadFor(ctx, notifyChannelRuns, notifyRunKey(notifyRun)))
	repo.ahead.note(notifyChannelRuns, notifyRunKey(notifyRun))
	before := fetches.Load()
	watched, err := repo.GetRun(ctx, notifyRun)
	require.NoError(t, err)
	assert.Equal(t, alone, watched)
	assert.Greater(t, fetches.Load(), before)

	// What is not there is told as ever.
	nobody := &common.ActionIdentifier{Run: notifyRun, Name: "nobody"}
	_, plain := repo.GetAction(t.Context(), nobody)
	require.Error(t, plain)
	_, err = repo.GetAction(repo.reading(t.Context(), notifyChannelActions, repo.newReadAhead(notifyChannelActions)), nobody)
	assert.EqualError(t, err, plain.Error())
}

// A row that was read ahead is not given for what arrives later.
func TestReadAhead_IsReadAnewOnceItIsHeardOfAgain(t *testing.T) {
	repo, _, exec := startReadingAhead(t, 2)
	group := aheadGroup{notifyChannelActions, notifyRunKey(notifyRun)}
	ctx, leave := repo.watching(t.Context(), group)
	defer leave()
	phaseOf := func(i int) int32 {
		action, err := repo.GetAction(ctx, notifyAction(i))
		require.NoError(t, err)
		return action.Phase
	}
	for phase := range int32(5) {
		repo.ahead.note(notifyChannelActions, notifyActionKey(notifyAction(0)))
		repo.ahead.note(notifyChannelActions, notifyActionKey(notifyAction(1)))
		phaseOf(0) // and n1 with it
		exec(`UPDATE actions SET phase = $1`, phase)
		repo.ahead.note(notifyChannelActions, notifyActionKey(notifyAction(1)))
		assert.Equal(t, phase, phaseOf(1))
	}
}

// Names are the database's to compare, whatever is in them.
func TestFetchRows_NamesOfAnyKind(t *testing.T) {
	repo, _, exec := startReadingAhead(t, 0)
	var keys []rowKey
	for i, name := range []string{`"`, `\`, `{a,b}`, "'", "ü", "a b", strings.Repeat("x", 500)} {
		keys = append(keys, rowKey{"p", "d", fmt.Sprintf("r%d", i), name})
		exec(`INSERT INTO actions (project, domain, run_name, name) VALUES ('p', 'd', $1, $2)`, keys[i].run, name)
	}
	rows, err := repo.joint.read(t.Context(), append(keys, rowKey{"p", "d", "r0", "nobody"}))
	require.NoError(t, err)
	assert.Len(t, rows, len(keys))
	for _, key := range keys {
		require.NotNil(t, rows[key], key)
		assert.Equal(t, key, keyOf(rows[key]))
	}
}

// A row that several watchers wanted is read once, and is each one's own.
func TestReadAheadFor_TheRowIsTheCallersOwn(t *testing.T) {
	shared := &models.Action{Project: "p", Domain: "d", RunName: "r", Name: "n"}
	repo := &readingAhead{&actionRepo{joint: newJointReader(func(context.Context, []rowKey) (map[rowKey]*models.Action, error) {
		return map[rowKey]*models.Action{keyOf(shared): shared}, nil
	})}}
	defer repo.joint.close()
	ctx := repo.reading(t.Context(), notifyChannelActions, repo.newReadAhead(notifyChannelActions))
	row := readAheadFor(ctx, notifyChannelActions, "p/d/r/n")
	assert.Equal(t, shared, row)
	assert.NotSame(t, shared, row)
	assert.Nil(t, readAheadFor(t.Context(), notifyChannelActions, "p/d/r/n"), "nobody else is served")
}
