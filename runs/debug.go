package runs

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"

	"github.com/flyteorg/flyte/v2/runs/repository/interfaces"
)

// debugNotify answers GET /debug/notify: how announcing and hearing of changes goes, as indented JSON. It is for somebody on the machine, or
// who has a port forwarded from it, and looks as if it were not there to everybody else: it shows the inside of the process and asks for no
// password.
func debugNotify(status func() interfaces.NotifyStatus) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !askedFromHere(r) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		answer := json.NewEncoder(w)
		answer.SetIndent("", "  ")
		// The client that asked may be gone; there is nobody else to tell.
		_ = answer.Encode(status())
	})
}

// askedFromHere tells whether a request comes from this machine and not through a proxy on it, and was not made by a browser that takes
// somebody else's name for ours.
func askedFromHere(r *http.Request) bool {
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	asked, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && asked.Unmap().IsLoopback()
}
