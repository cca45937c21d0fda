package impl

import (
	"sync"

	"github.com/flyteorg/flyte/v2/flytestdlib/pgnotify"
)

// notifyRootAction is the name of the action that stands for its run.
const notifyRootAction = "a0"

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
