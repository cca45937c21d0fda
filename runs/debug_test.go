package runs

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

func TestDebugNotifyIsForThisMachineOnly(t *testing.T) {
	h := debugNotify(func() interfaces.NotifyStatus { return interfaces.NotifyStatus{Mode: "batched"} })
	for _, c := range []struct {
		peer, host, header string
		want               int
	}{
		{"127.0.0.1:1234", "127.0.0.1:10254", "", http.StatusOK},
		{"127.8.9.10:1234", "localhost", "", http.StatusOK},
		{"[::1]:1234", "[::1]:10254", "", http.StatusOK},
		{"[::ffff:127.0.0.1]:1234", "localhost:10254", "", http.StatusOK},
		{"10.0.0.7:1234", "127.0.0.1:10254", "", http.StatusNotFound},
		{"127.0.0.1:1234", "rebound.example:10254", "", http.StatusNotFound},
		{"127.0.0.1:1234", "10.0.0.7", "", http.StatusNotFound},
		{"127.0.0.1:1234", "localhost", "X-Forwarded-For", http.StatusNotFound},
		{"127.0.0.1:1234", "localhost", "Forwarded", http.StatusNotFound},
		{"@", "localhost", "", http.StatusNotFound},
	} {
		r := httptest.NewRequest(http.MethodGet, "/debug/notify", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		if c.header != "" {
			r.Header.Set(c.header, "10.0.0.7")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, c.want, w.Code, "%+v", c)
		if c.want == http.StatusOK {
			var status interfaces.NotifyStatus
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &status))
			assert.Equal(t, "batched", status.Mode)
		}
	}
}
