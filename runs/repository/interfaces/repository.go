package interfaces

import "context"

// Repository is everything that the service stores, and the one to close when the process ends.
type Repository interface {
	// ActionRepo returns the store of runs, actions and events. It is the same one on every call.
	ActionRepo() ActionRepo

	// Close stops what the repository runs in the background: wake-ups that are still waiting are sent first, as far as ctx allows.
	// It returns when all of it has ended, at the latest with ctx, whose error then says what was left undone. It does not close the
	// database handle that the repository was given. Closing again is harmless and gives the first call's result.
	Close(ctx context.Context) error
}
