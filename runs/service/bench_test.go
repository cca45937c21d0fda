package service

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
)

// BenchmarkUpdateActionStatus is what an RPC costs besides the database: client, HTTP/2, interceptors, validation.
func BenchmarkUpdateActionStatus(b *testing.B) {
	client := newServer(b, answering{do: func(context.Context) error { return nil }}).internal()
	request := statusRequest(actionID("run", "a1"), running)
	for b.Loop() {
		response, err := client.UpdateActionStatus(b.Context(), connect.NewRequest(request))
		require.NoError(b, err)
		require.Zero(b, response.Msg.GetStatus().GetCode())
	}
}
