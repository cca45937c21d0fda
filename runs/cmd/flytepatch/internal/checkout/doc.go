// Package checkout works in somebody's git checkout without leaving a trace that was not asked for.
//
//	Open ──▶ Worktree ──▶ Commit, Commit, … ──▶ Patches or CreateBranch
//	 refuses    temporary                          the only writes that stay
//	                └──────────▶ Close, in any case
//
// The commits are made in a temporary git worktree whose new objects go to a directory beside it, not into the checkout's object
// store: a run that is refused, interrupted or only checks leaves the checkout as it was, .git included. CreateBranch copies
// the objects over and creates the branch in one step that fails if it exists.
//
// Hooks do not run and commits are not gpg-signed: both belong to the owner's own commits, and both may ask questions that
// nobody is there to answer. The identity is the one in the checkout's git config.
package checkout
