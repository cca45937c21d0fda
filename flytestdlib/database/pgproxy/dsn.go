package pgproxy

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// DSN rewrites a connection string, in URL or keyword form, so that it leads through the proxy, without TLS. Several hosts
// become the one proxy. A URL that does not parse comes back as it is: the driver then says what is wrong with it.
func (p *Proxy) DSN(orig string) string {
	host, port, _ := net.SplitHostPort(p.addr)
	if !strings.HasPrefix(orig, "postgres://") && !strings.HasPrefix(orig, "postgresql://") {
		return strings.TrimSpace(fmt.Sprintf("%s host=%s port=%s sslmode=disable", orig, host, port)) // the last of a keyword counts
	}
	u, err := url.Parse(orig)
	if err != nil {
		return orig
	}
	u.Host = p.addr
	q := u.Query()
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}
