package models

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/workflow"
)

var id = &common.ActionIdentifier{Run: &common.RunIdentifier{Org: "o", Project: "p", Domain: "d", Name: "r"}, Name: "a1"}

func TestNewActionModel(t *testing.T) {
	assert.Equal(t, &Action{Project: "p", Domain: "d", RunName: "r", Name: "a1", Phase: 1}, NewActionModel(id))
	assert.Equal(t, &Action{Phase: 1}, NewActionModel(nil))
}

func TestActionEventThereAndBack(t *testing.T) {
	event := &workflow.ActionEvent{
		Id: id, Attempt: math.MaxInt32, Phase: common.ActionPhase_ACTION_PHASE_FAILED, Version: 3,
		ErrorInfo: &workflow.ErrorInfo{Message: "boom", Kind: workflow.ErrorInfo_KIND_USER},
	}
	row, err := NewActionEventModel(event)
	require.NoError(t, err)
	assert.Equal(t, []any{"p", "d", "r", "a1", uint32(math.MaxInt32), int32(6), uint32(3)},
		[]any{row.Project, row.Domain, row.RunName, row.Name, row.Attempt, row.Phase, row.Version})
	assert.Equal(t, "KIND_USER", row.ErrorKind.String)
	back, err := row.ToActionEvent()
	require.NoError(t, err)
	assert.True(t, proto.Equal(event, back))

	row, err = NewActionEventModel(&workflow.ActionEvent{Id: id, Attempt: 1})
	require.NoError(t, err)
	assert.False(t, row.ErrorKind.Valid)
}

func TestActionEventRefuses(t *testing.T) {
	for want, event := range map[string]*workflow.ActionEvent{
		"event: must be set":        nil,
		"event.attempt: 2147483648": {Id: id, Attempt: math.MaxInt32 + 1},
		"event.version: 4294967295": {Id: id, Attempt: 1, Version: math.MaxUint32},
		"serialize event":           {Id: id, Attempt: 1, Cluster: "\xff"},
	} {
		_, err := NewActionEventModel(event)
		require.ErrorContains(t, err, want)
	}
	_, err := (&ActionEvent{Name: "a1", Attempt: 2, Info: []byte{0xff}}).ToActionEvent()
	require.ErrorContains(t, err, `event of action "a1", attempt 2`)
}
