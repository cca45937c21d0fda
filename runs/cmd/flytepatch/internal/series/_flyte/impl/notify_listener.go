package impl

import (
	"sync"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// subscribersOf shows a set of subscribers to the backlog, under the lock that guards it.
func subscribersOf(mu *sync.RWMutex, set *map[chan string]bool) pgnotify.Subscribers {
	return func(visit func(subscriber chan string)) {
		mu.RLock()
		defer mu.RUnlock()
		for subscriber := range *set {
			visit(subscriber)
		}
	}
}
