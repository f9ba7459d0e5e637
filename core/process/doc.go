// Package process starts, names, watches and ends operating-system processes.
//
// Its one invariant: a process is never told by its number alone. An Identity
// is pid, start time and boot; a signal goes through a descriptor that was
// opened first and compared with the identity afterwards, so a number that was
// given to another process in between is never hit. What Retire reports as
// gone is gone, and what would not die is named.
//
// Linux carries every promise. On macOS the package builds and works, with
// these losses: Start checks a binary's digest and then executes its path, so a
// file that is swapped in between is not noticed; signals go to a number that
// was compared just before; there is no subreaper, so a descendant that left
// its session and carries no mark is not found once its parent has ended.
package process
