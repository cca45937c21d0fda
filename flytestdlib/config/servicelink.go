package config

import "regexp"

// serviceLinkName matches the variables that Kubernetes adds to each pod for each service of its namespace, and Docker for
// links: a service called flyte-runs brings FLYTE_RUNS_SERVICE_HOST, FLYTE_RUNS_PORT_8090_TCP_ADDR and so on.
var serviceLinkName = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceLinkValue matches what such a variable holds when its name alone (FLYTE_RUNS_PORT) could be one of ours.
var serviceLinkValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// isServiceLink tells whether a variable was put there by the platform: nobody set it, so it is neither read nor an error.
func isServiceLink(name, value string) bool {
	return serviceLinkName.MatchString(name) || serviceLinkValue.MatchString(value)
}
