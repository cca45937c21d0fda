package interfaces

// Repository gives the repositories of the runs service.
type Repository interface {
	ActionRepo() ActionRepo
}
