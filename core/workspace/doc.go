// Package workspace gives a writer a working tree of its own, takes down what
// it made there, and puts that into the user's tree: whole or not at all.
//
// It is not a git porcelain. The repository, the worker's files and the trees
// made from them are hostile input, so nothing of theirs is ever asked what to
// do. The one invariant: no configuration, hook, filter, attribute or nested
// repository of theirs has any effect on what this package does. Therefore
//
//   - git runs in one place (git.run), with an empty environment, on a private
//     git folder of ours that borrows the user's objects and has a
//     configuration that we wrote;
//   - git never looks at a user's or a worker's files, but for the names that
//     .gitignore files speak of; this package reads and writes them itself,
//     without following a symbolic link;
//   - a path is judged before it is written (Classify), from the trees
//     themselves, never from a list that was stored.
//
// Files below the state root:
//
//	<state>/git/home             the HOME of every git command; empty
//	<state>/git/<hash>.lock      flock: one change at a time per repository
//	<state>/git/<hash>/          private git folder, 24 hex digits of the
//	                             sha256 of the repository's common git folder
//	  objects/info/alternates    the user's objects
//	  objects/pack               what captured patches need of them (see Keep)
//	  info/attributes            every conversion switched off
//	  worktrees/<hash>/          one registration per worktree
//	  refs/mmo/<name>            trees that Keep was asked to keep
//
// An integration has a folder of its own, its journal (see Plan): after a
// crash at any point Resume makes the tree old or new, never between.
package workspace
