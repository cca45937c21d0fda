// Package series makes the change to flyteorg/flyte as commits: which files are added, which declarations are replaced by what.
//
//	1  flytestdlib/pgnotify with its tests                          whole files of this repository
//	2  the pump: batches, retries, writers never block              declarations of runs/repository/impl/action.go
//	3  the receive side, around the untouched consumers             declarations of action.go, new files, a migration
//	4  metrics                                                      new files, one line
//	5  watches that read in common and ahead                        whole files of this repository, new ones, a few lines
//
// Each commit stands on those before it; the fifth can be left out.
//
// Names that Flyte chose and the contract does not fix (fields, parameters, import names) are read from its source, found by their
// type or their use. Where the source is not what the change was made for, the series is not made: the error names the file
// and the declaration.
package series
